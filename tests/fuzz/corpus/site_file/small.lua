return { default_partition = "cpu", exclusive = false, mpi = "pmix",
  vm_sizes = { STANDARD_D2 = { cpus = 2, extra_options = { "--mem=0" } } },
  container_binds = { "/opt/site:/opt/site:ro:optional" },
  storage_accounts = { ours = { file_share_directory = "/shared/%s" } },
  environment = { HTTP_PROXY = "http://proxy:3128" } }
