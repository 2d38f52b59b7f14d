"""The modules whose tests run twice: on the workspace's file, and through a server.

The tests in DIRECT_ONLY run only on the file, each with its reason."""

BOTH_WAYS = {
    "test_cli",
    "test_bad_input",
    "test_identity_rules",
    "test_terminal",
    "test_sprint",
    "test_shortcuts",
    "test_hooks",
    "test_wake_lines",
    "test_token_import",
}

NO_WORKSPACE = "the test needs no workspace"
MAKES_ONE = "the test checks when a command creates a workspace, and a server creates one"
UNUSABLE = "no server starts for an unusable workspace"
OWN_SERVER = "the test starts its own server"
THE_FILE = "the test changes the file, which a server has open"
DIRECT_ONLY = {
    # test_cli
    "test_help_with_json_prints_one_document": NO_WORKSPACE,
    "test_version_is_printed": NO_WORKSPACE,
    "test_schema_prints_the_published_files": NO_WORKSPACE,
    "test_command_that_needs_no_workspace_creates_none": MAKES_ONE,
    "test_the_shared_runner_passes_with_the_real_command": "the test creates its own workspaces",
    "test_the_shared_runner_passes_with_the_real_command_and_real_servers": OWN_SERVER,
    # test_bad_input
    "test_a_workspace_that_is_a_file_is_refused": UNUSABLE,
    "test_a_workspace_below_a_file_is_refused": UNUSABLE,
    "test_workspace_that_cannot_be_created_is_refused": UNUSABLE,
    "test_workspace_path_that_is_not_utf8_works_or_is_refused": UNUSABLE,
    "test_directory_with_other_files_is_left_alone": UNUSABLE,
    "test_a_directory_that_cannot_be_written_is_refused": UNUSABLE,
    "test_a_directory_where_the_log_should_be_is_refused": UNUSABLE,
    "test_log_that_is_not_a_database_is_refused_and_left_alone": UNUSABLE,
    "test_foreign_database_is_refused_and_left_alone": UNUSABLE,
    "test_database_with_our_application_id_and_foreign_tables_is_refused": UNUSABLE,
    "test_newer_format_is_refused_with_a_request_to_upgrade": THE_FILE,
    "test_a_log_last_used_on_another_host_is_refused_until_it_is_adopted": THE_FILE,
    "test_truncated_log_is_refused_or_found_damaged": THE_FILE,
    # test_identity_rules
    "test_workspace_flag_takes_precedence_over_the_variable": MAKES_ONE,
    "test_init_reports_whether_it_created_a_workspace": MAKES_ONE,
    "test_run_exits_with_125_without_a_workspace": UNUSABLE,
    # test_token_import
    "test_an_old_token_works_over_http_until_it_is_rotated": OWN_SERVER,
    "test_secret_sent_over_http_is_refused_and_not_echoed": OWN_SERVER,
    # test_terminal
    "test_help_of_every_command_has_a_summary_and_a_usage": NO_WORKSPACE,
    "test_help_fits_a_narrow_terminal": NO_WORKSPACE,
    "test_help_is_as_wide_as_the_terminal": NO_WORKSPACE,
    "test_the_overview_names_every_command": NO_WORKSPACE,
    "test_help_page_of_a_command": NO_WORKSPACE,
    "test_help_page_of_a_group_lists_its_commands": NO_WORKSPACE,
    "test_usage_error_shows_the_usage_and_the_nearest_command": NO_WORKSPACE,
    "test_there_is_a_completion_for_each_shell": NO_WORKSPACE,
    "test_bash_completes_with_the_script": NO_WORKSPACE,
}
