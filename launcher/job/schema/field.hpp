// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/json.hpp"
#include "job/model.hpp"

// The entries of the field table. An entry holds everything that is known about a key of a job
// file. The parser, the diagnostics, `job show`, the JSON Schema and the reference page all read
// it. The other parts of this folder are:
//
//   field_table.hpp          the table itself; it says which file has which keys
//   field_binding.hpp        builders that bind a key to a member of the model
//   local_secret_fields.hpp  the two keys that stand beside a secret
//   binder.hpp               copies the values of a tree into the model
//   checks.hpp               checks the texts of settings, and reads durations
//   faults.hpp               the kinds of fault, and their collection
//   storage_account.hpp      the placeholders of a storage account, and URLs of file shares
//   sweep_parameters.hpp     the parameters of a sweep

namespace batchai::job {

struct Node;
class Faults;

// A list has objects as its elements, and `words` is an array of texts. `own` is a value that the
// field's own functions read.
enum class Kind : std::uint8_t {
    text,
    integer,
    boolean,
    choice,
    duration,
    object,
    list,
    words,
    own
};

// The form that a text must have, besides being non-empty and free of NUL. See checks.hpp.
enum class Check : std::uint8_t {
    none,
    anything,             // may be empty
    word,                 // no blanks, no control characters, no leading "-"
    path,                 // no control characters
    relative_mount_path,  // stays below the mount root
    path_component,       // one name of a path
    variable_name,        // of an environment variable
    secret_variable,      // of one that can be taken out of the submitter's environment
    secret_file,          // an absolute path, or one below ~/
    directory_id,         // the tail of an environment variable's name
    file_share_url,
    octal_mode,
    memory_size,
    // The following are values of options of sbatch. None starts with "-" or has a control
    // character.
    option_text,    // may have blanks
    option_list,    // separated by commas, which may also be within [ ]
    array_indexes,  // "0-15", "1,3,5-7", "0-99:2%4"
    option_memory,  // a number, and K, M, G or T
    gpu_counts,     // "2", "a100:2", "a100:1,k80:2"

    retry_cause,     // "timeout", "75", "130-140"
    module_name,     // "cuda/12.4"
    metric_pattern,  // a regular expression with one group (job/line_pattern.hpp)
    line_pattern,    // a regular expression
};

// How the fields of one group in an object exclude each other.
enum class Group : std::uint8_t { none, exactly_one, at_most_one };

enum class Presence : std::uint8_t {
    optional,
    required,
    required_in_preview,        // in 2017-09-01-preview only
    required_since_2018_03_01,  // optional in the preview
    required_until_2018_03_01,  // optional in 2018-05-01
};

// A choice is stored as its index, a duration in seconds.
using Value = std::variant<std::string, std::int64_t, bool>;

// Access to a value in the model without its static type. `owner` is the struct to which the
// object's fields belong. The builders in field_binding.hpp make it from member pointers.
struct Access {
    void (*store)(void* owner, const Value& value) = nullptr;
    std::optional<Value> (*load)(const void* owner) = nullptr;
    // The functions above have one text of an array for `words`: the first adds it, and the second
    // is not used; `count` and `at` then give the texts as std::string.
    // Creates the object if it is absent, or appends an element to the list. Returns the new owner.
    void* (*open)(void* owner) = nullptr;
    // Returns 0 or 1 for an object, and the number of elements for a list.
    std::size_t (*count)(const void* owner) = nullptr;
    const void* (*at)(const void* owner, std::size_t index) = nullptr;
    // For Kind::own.
    void (*read)(void* owner, const Node& node, Faults& faults) = nullptr;
    base::Value (*echo)(const void* owner) = nullptr;
};

struct Object;

struct Field {
    std::string_view name;
    Kind kind = Kind::text;
    Access access;
    const Object* object = nullptr;  // describes the object or the list's elements
    std::string_view doc;            // one line
    std::string_view example;        // as JSON
    Presence presence = Presence::optional;
    std::string_view fallback;  // the default, in words or as JSON; empty: none
    std::span<const std::string_view> choices;
    std::int64_t minimum = 1;
    std::int64_t maximum = 0;
    Check check = Check::none;
    SchemaVersion since = SchemaVersion::v2017_09_01_preview;
    SchemaVersion until = SchemaVersion::v2018_05_01;
    Group group = Group::none;
    std::string_view group_name;  // "toolkit"
    std::string_view needs;       // a field of the same object that this one requires
    std::string_view unique;      // the kind of name that may be given only once in a file
    std::string_view instead;     // what to use instead of a retired field
    std::string_view form;        // Kind::own: the JSON Schema of the value
    std::string_view form_name;   // Kind::own: its type, for people
    bool secret = false;
    bool read_only = false;       // accepted and ignored
    std::string_view no_meaning;  // accepted and ignored: completes "has no effect: "
    bool extension = false;  // not in Batch AI's schema; `job show` leaves it out if it is absent

    // The functions below refine a field. Each returns a copy with one more property.
    [[nodiscard]] constexpr Field required() const { return with_presence(Presence::required); }
    [[nodiscard]] constexpr Field with_presence(Presence value) const {
        Field copy = *this;
        copy.presence = value;
        return copy;
    }
    [[nodiscard]] constexpr Field defaults_to(std::string_view text) const {
        Field copy = *this;
        copy.fallback = text;
        return copy;
    }
    [[nodiscard]] constexpr Field checked(Check value) const {
        Field copy = *this;
        copy.check = value;
        return copy;
    }
    [[nodiscard]] constexpr Field in_schemas(SchemaVersion first, SchemaVersion last) const {
        Field copy = *this;
        copy.since = first;
        copy.until = last;
        return copy;
    }
    [[nodiscard]] constexpr Field in_group(Group value, std::string_view label) const {
        Field copy = *this;
        copy.group = value;
        copy.group_name = label;
        return copy;
    }
    [[nodiscard]] constexpr Field only_with(std::string_view other) const {
        Field copy = *this;
        copy.needs = other;
        return copy;
    }
    [[nodiscard]] constexpr Field unique_as(std::string_view what) const {
        Field copy = *this;
        copy.unique = what;
        return copy;
    }
    [[nodiscard]] constexpr Field replaced_by(std::string_view what) const {
        Field copy = *this;
        copy.instead = what;
        return copy;
    }
    [[nodiscard]] constexpr Field kept_secret() const {
        Field copy = *this;
        copy.secret = true;
        return copy;
    }
    [[nodiscard]] constexpr Field ignored() const {
        Field copy = *this;
        copy.read_only = true;
        return copy;
    }

    [[nodiscard]] constexpr Field without_effect(std::string_view reason) const {
        Field copy = *this;
        copy.read_only = true;
        copy.no_meaning = reason;
        return copy;
    }

    [[nodiscard]] constexpr Field own_extension() const {
        Field copy = *this;
        copy.extension = true;
        return copy;
    }

    [[nodiscard]] constexpr bool required_in(SchemaVersion schema) const {
        switch (presence) {
            case Presence::optional:
                return false;
            case Presence::required:
                return true;
            case Presence::required_in_preview:
                return schema == SchemaVersion::v2017_09_01_preview;
            case Presence::required_since_2018_03_01:
                return schema >= SchemaVersion::v2018_03_01;
            case Presence::required_until_2018_03_01:
                return schema <= SchemaVersion::v2018_03_01;
        }
        return false;
    }
    [[nodiscard]] constexpr bool in(SchemaVersion schema) const {
        return since <= schema && schema <= until;
    }
};

// A key that an object does not have although users look for it there.
struct RefusedKey {
    std::string_view name;
    std::string_view instead;  // a hint: what sets this, or why nothing does
    // Another key of the file sets it, and an option of the command line may replace that value.
    bool only_in_file = false;
};

struct Object {
    std::string_view name;  // in the schema's "$defs" and the reference page
    std::string_view doc;
    std::span<const Field> fields;
    std::span<const RefusedKey> refused = {};
    std::string_view other_keys = {};  // a hint for keys that are neither fields nor refused

    [[nodiscard]] constexpr const Field* find(std::string_view key) const {
        for (const Field& field : fields) {
            if (field.name == key) return &field;
        }
        return nullptr;
    }
};

// Indexed by SchemaVersion.
inline constexpr std::array<std::string_view, 3> schema_names = {"2017-09-01-preview", "2018-03-01",
                                                                 "2018-05-01"};

[[nodiscard]] constexpr std::string_view name_of(SchemaVersion version) {
    return schema_names[static_cast<std::size_t>(version)];
}

// Returns the version that the URL in "$schema" contains; the newest if it contains none.
[[nodiscard]] constexpr SchemaVersion schema_of_url(std::string_view url) {
    for (const SchemaVersion version :
         {SchemaVersion::v2017_09_01_preview, SchemaVersion::v2018_03_01}) {
        if (url.find(name_of(version)) != std::string_view::npos) return version;
    }
    return SchemaVersion::v2018_05_01;
}

}  // namespace batchai::job
