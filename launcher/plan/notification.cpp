// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "plan/planning.hpp"

namespace batchai::plan {

namespace {

constexpr std::string_view pointer = "/properties/notification/webhook";
constexpr std::string_view https = "https://";
constexpr std::string_view http = "http://";

bool is_url_character(char c) {
    // Quotes, backslashes and braces have meanings for curl, which reads the URL.
    constexpr std::string_view refused = "\"'\\{}[]<>^`|";
    return c > 0x20 && c < 0x7F && refused.find(c) == std::string_view::npos;
}

}  // namespace

void plan_notification(Planning& planning) {
    if (!planning.spec.notification || !planning.spec.notification->webhook) return;
    const job::WebhookSettings& wanted = *planning.spec.notification->webhook;
    Webhook& webhook = planning.plan.webhook.emplace();
    // No variable of a job can have this name.
    webhook.secret_name = "notification.webhook.url";
    webhook.text_only = wanted.format == job::WebhookFormat::text;
    webhook.only_failures = wanted.only_failures;
    webhook.over_http = planning.site.webhooks_over_http;
    // `batchai validate` does not read the secret.
    if (!wanted.url) return;
    const std::string& url = *wanted.url;
    // No message has the URL, because it may have a token in it.
    const std::string start = base::lower(url.substr(0, https.size()));
    const bool encrypted = start.starts_with(https);
    const bool plain = start.starts_with(http);
    if (plain && !webhook.over_http)
        planning.findings.add(Finding::bad_notification, pointer,
                              "the webhook's URL begins with http://, so that others could read it",
                              "use https://, or ask the admin to set webhooks_over_http in "
                              "site.lua");
    else if (!encrypted && !plain)
        planning.findings.add(Finding::bad_notification, pointer,
                              "the webhook's URL does not begin with https://",
                              "give the whole URL, such as https://hooks.example.org/services/…");
    const std::size_t host = encrypted ? https.size() : http.size();
    const bool good = url.size() > host && url[host] != '/' &&
                      std::all_of(url.begin(), url.end(), is_url_character) && url.size() < 4096;
    if ((encrypted || plain) && !good)
        planning.findings.add(Finding::bad_notification, pointer,
                              "the webhook's URL has no host, is longer than 4095 bytes, or has "
                              "characters that are not allowed in a URL",
                              "write blanks and special characters as %20 and so on");
    planning.mount_secrets.push_back({webhook.secret_name, url});
}

}  // namespace batchai::plan
