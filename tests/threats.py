"""The rows of docs/threat-model.md and the tests that hold each of them.

A test cites its rows with `@pytest.mark.threat("S1")`. `test_threats.py` compares the three: this
table, the document, and the citations. A row without a test is a promise that nobody keeps.
"""

from __future__ import annotations

CORPUS = "hostile/test_corpus::test_it_ends_as_it_must_and_leaves_nothing"

THREATS: dict[str, tuple[str, ...]] = {
    # the agent's script
    "S1": (CORPUS, "test_calls::test_a_timeout_cancels_what_is_in_flight_and_says_so"),
    "S2": (CORPUS, "test_confine::test_a_vm_has_limits"),
    "S3": (
        CORPUS,
        "hostile/test_corpus::test_the_loop_was_free_and_the_host_is_no_larger_after_all_of_them",
        "test_script::test_many_waiting_calls_or_large_ones_are_a_crowd",
        "test_script::test_questions_that_wait_are_a_crowd_too",
        "test_script::test_more_lines_than_the_prelude_sends_are_misbehaviour",
        "test_frames::test_a_frame_of_too_many_values_is_not_read",
        "test_calls::test_a_script_that_reads_no_answers_makes_no_more_calls",
        "test_calls::test_the_questions_of_a_script_are_gone_with_it_though_nobody_collects",
        "test_zygote::test_a_vm_that_asks_on_and_reads_no_answers_is_not_heard",
        "test_contract::test_a_hundred_thousand_faults_are_told_by_the_first",
        "test_script::test_the_ledger_keeps_neither_arguments_nor_names_without_end",
    ),
    "S4": (
        "test_confine::test_killing_a_vm_costs_its_script_alone",
        "test_confine::test_killing_the_fork_server_ends_all_vms_and_it_is_started_again",
        "test_confine::test_closing_the_pool_leaves_no_process_not_even_one_that_spins",
        "test_confine::test_a_fork_server_that_loses_its_daemon_takes_spinning_vms_along",
        "test_serve::test_one_that_was_killed_leaves_no_process_and_its_sockets_are_taken_over",
    ),
    "S5": (
        "test_confine::test_a_vm_that_tries_is_stopped",
        "test_confine::test_every_layer_is_in_force",
        "test_confine::test_a_vm_has_no_new_privileges_and_a_filter",
        "test_confine::test_the_filter_names_no_call_that_reaches_out",
    ),
    "S6": (
        CORPUS,
        "test_confine::test_a_vm_has_an_empty_environment_and_the_secrets_of_nobody",
        "test_confine::test_a_vm_has_exactly_one_descriptor",
        "test_confine::test_a_vm_that_tries_is_stopped",
        "test_calls::test_nothing_survives_from_one_script_to_the_next",
    ),
    "S7": ("test_confine::test_a_vm_that_tries_is_stopped", "test_confine::test_a_vm_has_limits"),
    "S8": (
        CORPUS,
        "test_script::test_whatever_happens_only_allowed_servers_are_called_within_budget_and_cap",
        "test_calls::test_a_getter_that_changes_its_mind_is_read_once",
    ),
    "S9": (
        CORPUS,
        "test_script::test_a_final_refusal_counts_only_when_it_was_ours",
        "test_script::test_no_syntax_error_after_the_first_call",
    ),
    "S10": (CORPUS, "test_values::test_overwriting_builtins_does_not_reach_the_host"),
    "S11": (
        "test_zygote::test_a_vm_that_says_any_bytes_has_crashed_and_no_more",
        "test_zygote::test_a_vm_that_says_any_json_has_crashed_and_kept_its_budget",
        "test_zygote::test_a_vm_that_breaks_the_protocol_has_crashed",
        "test_frames::test_any_bytes_are_frames_or_a_refusal",
        "test_frames::test_a_frame_of_too_many_values_is_not_read",
        "test_script::test_more_lines_than_the_prelude_sends_are_misbehaviour",
        "test_script::test_any_json_is_a_command_or_misbehaviour",
    ),
    "S12": (
        "test_zygote::test_a_socket_with_an_odd_order_is_closed_and_not_given_to_the_next_vm",
        "test_zygote::test_a_vm_has_no_line_of_the_fork_server_whatever_its_number",
        "test_zygote::test_half_an_order_and_the_end_of_the_line_end_the_fork_server",
        "test_zygote::test_no_signal_is_written_to_a_vm_s_line_where_stderr_is_closed",
        "test_zygote::test_anything_without_a_socket_makes_the_fork_server_do_nothing",
    ),
    "S13": (
        CORPUS,
        "test_typescript::test_a_process_that_dies_is_replaced",
        "test_typescript::test_nobody_waits_for_a_source_that_takes_long",
        "test_typescript::test_what_stands_in_no_function_is_found_in_time_that_grows_with_the_source",
        "test_typescript::test_what_cannot_be_transformed_is_said_without_insides",
    ),
    "S14": (
        "test_scripts::test_a_bad_name_is_refused_before_any_file_is_touched",
        "test_scripts::test_what_can_not_be_a_script_says_why",
    ),
    # a web page in a browser on this machine
    "B1": (
        "test_guard::test_any_other_host_is_misdirected_even_with_the_key",
        "test_guard::test_a_host_that_is_let_in_is_one_name_and_perhaps_a_port",
        "test_guard::test_of_two_hosts_none_is_ours",
    ),
    "B2": (
        "test_guard::test_pages_of_other_sites_are_refused_on_every_listener",
        "test_guard::test_a_page_of_another_server_on_this_machine_is_foreign",
        "test_guard::test_a_browser_that_says_where_it_comes_from_is_believed",
        "test_guard::test_the_api_takes_no_page_at_all_not_even_one_of_ours",
    ),
    # somebody else who reaches a listener, or has an account here
    "L1": (
        "test_guard::test_a_key_makes_an_administrator_and_mcp_is_open_on_loopback",
        "test_guard::test_mcp_wants_a_key_when_told_so_or_when_others_can_reach_it",
        "test_guard::test_without_a_configured_key_no_key_is_right",
        "test_guard::test_whoever_comes_through_a_reverse_proxy_needs_a_key",
        "test_access::test_nobody_gets_in",
    ),
    "L2": (
        "test_paths::test_a_private_directory_is_this_user_s_alone",
        "test_paths::test_another_user_s_directory_is_refused",
        "test_settings::test_a_first_run_makes_a_file_with_a_key_for_this_user_alone",
        "test_dial::test_the_logs_are_a_folder_of_this_user_alone",
        "test_tokens::test_no_copy_of_a_secret_is_kept_and_the_files_are_this_user_s_alone",
        "test_connections::test_the_kernel_knows_whose_the_other_end_is",
        "test_connections::test_the_local_socket_is_for_this_user_alone",
        "test_commands::test_no_key_goes_to_a_port_where_another_user_listens",
    ),
    "L3": (
        "test_settings::test_a_secret_prints_nowhere",
        "test_journal::test_a_secret_is_nowhere_in_the_journal_not_even_half_of_it",
        "test_guard::test_nothing_that_was_sent_is_logged_or_given_back",
        "test_dial::test_a_refusal_says_its_status_and_keeps_our_secrets",
        "test_api::test_a_bug_of_ours_is_a_500_that_tells_nothing_but_where_to_look",
        "test_redaction::test_a_secret_is_found_in_each_of_its_forms",
        "test_redaction::test_neither_a_log_line_nor_an_error_has_a_secret",
        "test_secrets::test_settings_are_shown_with_references_and_without_values",
        "test_secrets::test_a_server_waits_for_its_secret_and_can_not_have_it_shown",
        "test_guard::test_no_key_goes_further_in_than_the_door",
        "test_tokens::test_no_copy_of_a_secret_is_kept_and_the_files_are_this_user_s_alone",
    ),
    "L4": (
        "test_api::test_a_larger_body_is_refused_while_it_comes",
        "test_api::test_a_body_of_too_many_values_is_refused_before_it_is_read",
        "test_connections::test_a_head_that_is_too_large_is_refused_before_it_is_whole",
        "test_connections::test_one_byte_at_a_time_wins_no_time",
        "test_connections::test_whoever_is_slow_with_a_body_is_hung_up_on",
        "test_connections::test_whoever_is_slow_with_a_head_is_hung_up_on",
        "test_connections::test_whoever_does_not_take_an_answer_is_let_go",
    ),
    "L5": (
        "test_scripts::test_a_token_hears_the_same_of_a_full_and_an_empty_directory",
        "test_policy::test_a_caller_can_call_what_it_sees_and_nothing_else",
        "test_policy::test_what_is_hidden_and_what_is_not_there_get_the_same_answers",
        "test_profiles::test_only_an_administrator_hears_which_profiles_there_are",
        "test_access::test_a_profile_that_is_not_there",
        "test_access::test_calls_of_a_script",
        "test_access::test_calls_through_a_profile",
        "test_access::test_direct_calls_over_mcp",
        "test_access::test_direct_calls_over_rest",
        "test_access::test_no_answer_names_what_the_caller_may_not_know",
        "test_access::test_only_a_token_is_kept_from_the_names_of_stored_scripts",
        "test_access::test_prompts_and_resources_are_those_of_its_servers",
        "test_access::test_what_is_listed_is_what_can_be_called",
        "test_toolkit::test_a_token_sees_its_own_servers",
        "test_policy::test_nobody_looks_past_the_view",
        "test_proxy_connections::test_a_client_hears_of_a_change_of_what_it_sees_and_of_no_other",
        "test_proxy_connections::test_whom_a_change_concerns",
    ),
    "L6": (
        "test_guard::test_a_token_is_let_in_by_its_name_until_it_expires_or_is_revoked",
        "test_guard::test_guessing_is_slowed_down_and_says_when_to_come_back",
        "test_tokens::test_a_key_that_was_right_is_looked_at_whoever_guesses_beside_it",
        "test_tokens::test_files_that_are_damaged_let_nobody_in",
        "test_tokens::test_what_is_remembered_of_peers_is_bounded",
        "test_tokens::test_wrong_keys_of_one_peer_have_to_wait_and_no_other_peer_does",
        "test_access::test_a_script_calls_nothing_more_when_its_token_is_revoked",
        "test_access::test_calls_of_a_script",
        "test_access::test_nobody_gets_in",
        "test_access::test_a_session_is_its_opener_s_alone",
        "test_tokens::test_an_entry_that_is_no_token_lets_nobody_in",
    ),
    "L7": (
        "test_policy::test_only_an_administrator_is_one",
        "test_access::test_an_operator_s_act_is_nobody_else_s",
        "test_access::test_no_tool_over_mcp_is_an_operator_s_act",
    ),
    "L8": (
        "test_codecache::test_code_is_its_owners_and_administrators_see_all",
        "test_codecache::test_code_that_calls_what_its_owner_may_no_longer_see_is_not_there",
        "test_paging::test_a_rest_is_for_its_caller_and_for_a_while",
        "test_paging::test_memory_is_bounded_for_each_and_for_all",
        "test_codecache::test_a_new_token_of_an_old_name_finds_nothing_of_the_one_before",
    ),
    # the record of it all
    "J1": (
        "test_activity::test_a_daemon_that_is_killed_under_load_has_a_record_of_all_that_it_answered",
    ),
    "J2": (
        "test_journal::test_a_full_disk_turns_it_off_loudly_and_it_comes_back",
        "test_journal::test_a_broken_database_turns_it_off_and_what_was_written_waits",
        "test_journal::test_who_is_turned_away_at_the_door_can_not_push_out_the_record_of_others",
        "test_activity_rest::test_a_listener_that_does_not_read_is_told_and_let_go",
    ),
    "J3": (
        "test_activity_rest::test_who_is_no_operator_reads_nothing_of_it",
        "test_activity_rest::test_an_export_has_all_records_and_no_formula_for_a_spreadsheet",
    ),
    # a server behind us
    "U1": (
        "test_fleet_calls::test_a_response_that_breaks_the_protocol_fails_its_call_at_once",
        "test_pipes::test_a_message_that_is_too_long_ends_the_stream_and_says_so",
        "test_pipes::test_noise_without_end_leaves_others_their_turn_and_is_not_all_logged",
        "test_pipes::test_a_server_that_asks_on_and_reads_nothing_gets_no_more_answers",
        "test_inflight::test_a_client_that_is_slow_to_hear_of_its_call_is_told_less",
        "test_inflight::test_a_server_that_does_not_read_is_sent_one_request_and_no_cancellation_of_the_others",
        "test_fleet_calls::test_a_second_answer_to_a_call_is_nobodys",
    ),
    "U2": (
        "test_fleet::test_a_server_sees_its_settings_and_little_else",
        "test_dial::test_a_secret_goes_to_the_server_and_nowhere_else",
        "test_secrets::test_a_reference_to_a_secret_is_resolved_for_its_server_alone",
    ),
    "U3": (
        "test_fleet_calls::test_a_call_that_takes_too_long_is_given_up_and_says_that_its_outcome_is_unknown",
        "test_fleet_endings::test_a_server_that_says_nothing_is_given_up_after_its_init_timeout",
    ),
    "U4": (
        "test_typings::test_hostile_schemas_end",
        "test_typings::test_a_line_cannot_end_a_comment_or_be_long",
        "test_catalog::test_a_definition_of_any_shape_can_be_read",
        "test_ambient::test_whatever_servers_say_it_is_typescript",
        "test_contract::test_a_small_schema_that_takes_for_ever_is_left_to_its_server",
    ),
    "U6": (
        "test_auth_command::test_a_daemon_logs_in_and_out",
        "test_logins::test_from_the_first_refusal_to_a_call",
        "test_logins::test_only_the_answer_to_this_login_ends_it",
        "test_logins::test_a_token_goes_to_the_address_it_was_given_for_and_is_gone_after_a_logout",
    ),
    "U5": (
        "test_fleet_endings::test_no_process_is_left_when_the_fleet_has_closed",
        "test_fleet_endings::test_a_child_and_its_own_die_with_a_daemon_that_is_killed",
    ),
    # a server or an entry that nobody has approved
    "A1": (
        "test_approvals::test_any_history_shows_exactly_what_was_approved",
        "test_approvals::test_each_part_that_a_model_goes_by_makes_another_tool",
        "test_approvals::test_instructions_that_change_wait_as_well",
        "test_baseline::test_a_tool_that_changes_or_is_new_is_held_until_it_is_approved",
        "test_baseline::test_records_that_cannot_be_read_trust_nobody",
        "test_trust::test_a_changed_tool_and_an_added_server_wait_and_no_agent_lets_them_in",
        "test_listed::test_another_word_makes_another_prompt_that_waits",
        "test_listed::test_what_is_new_waits_but_for_resources_without_words",
        "test_library_news::test_another_prompt_and_a_described_resource_wait_until_they_are_approved",
    ),
    "A2": (
        "test_approvals::test_who_is_let_in",
        "test_baseline::test_a_server_in_quarantine_runs_for_an_inspection_alone",
        "test_baseline::test_what_was_inspected_is_not_what_another_command_is_approved_by",
        "test_baseline::test_who_approved_a_server_without_tools_did_not_approve_those_that_come_later",
        "test_baseline::test_a_call_that_waits_for_its_connection_does_not_go_out_once_its_server_is_blocked",
        "test_trust::test_a_changed_tool_and_an_added_server_wait_and_no_agent_lets_them_in",
        "test_baseline::test_what_another_process_decides_holds_for_the_next_call",
    ),
    # API documents
    "O1": (
        "test_openapi::test_no_value_leaves_its_place",
        "test_openapi::test_no_member_of_an_object_is_another_parameter",
        "test_openapi::test_arguments_that_do_not_fit_the_document_are_not_sent",
    ),
    "O2": (
        "test_openapi_source::test_a_private_address_that_only_the_document_names_is_not_reached",
        "test_openapi_source::test_a_document_of_a_url_can_not_send_credentials_to_another_host",
    ),
    "O3": (
        "test_openapi_source::test_what_an_api_or_an_error_says_shows_no_credential",
        "test_openapi_examples::test_what_is_shown_of_its_settings_has_no_credential",
    ),
    "O4": (
        "test_openapi_reading::test_a_small_document_does_not_stand_for_a_huge_one",
        "test_openapi_reading::test_a_reference_leads_to_a_file_beside_the_document_and_nowhere_else",
        "test_openapi_reading::test_whatever_a_document_says_it_is_read_or_refused_with_a_reason",
    ),
    # tools from files
    "P1": (
        "test_toolpack_templates::test_no_value_reaches_a_shell_or_becomes_two_arguments",
        "test_toolpack_templates::test_no_value_becomes_an_option",
        "test_toolpack_templates::test_what_can_be_no_argument_is_refused",
        "test_toolpack_files::test_and_is_run_as_that_file",
    ),
    "P2": (
        "test_toolpack_templates::test_the_rest_of_the_language_is_refused_when_the_file_is_read",
        "test_toolpack_templates::test_nothing_of_ours_is_reached",
        "test_toolpack_templates::test_no_request_makes_a_template_run_long_or_grow",
    ),
    "P3": (
        "test_toolpack_http::test_no_value_leaves_its_place_in_the_url",
        "test_toolpack_http::test_no_path_climbs",
        "test_toolpack_http::test_no_value_makes_another_header",
    ),
    "P4": (
        "test_toolpack_http::test_a_redirect_to_another_host_is_not_followed",
        "test_toolpack_http::test_one_that_is_allowed_takes_no_secret_along",
        "test_toolpack_http::test_a_private_address_is_not_reached_however_it_is_spelled",
        "test_toolpack_http::test_which_addresses_may_be_reached",
        "test_toolpack_http::test_a_name_is_resolved_once_and_all_its_addresses_must_do",
        "test_toolpack_http::test_the_connection_goes_to_the_address_that_was_looked_at",
    ),
    "P5": (
        "test_toolpack_files::test_no_reference_leads_out_of_the_pack",
        "test_toolpack_files::test_no_link_does",
        "test_toolpack_files::test_a_small_file_does_not_stand_for_a_huge_one",
    ),
    "P6": (
        "test_toolpack::test_only_what_is_listed_is_in_the_environment",
        "test_toolpack::test_a_failure_shows_no_secret_and_a_limit_is_one",
        "test_toolpack_http::test_what_one_token_may_see_is_not_kept_for_another",
    ),
    "P7": (
        "test_toolpack::test_nothing_is_left_of_a_program_that_takes_too_long_ends_or_is_cancelled",
        "test_toolpack::test_nothing_is_left_of_one_that_is_cancelled_while_it_starts",
        "test_toolpack::test_a_flood_on_stderr_is_cut_and_one_on_stdout_ends_the_program",
    ),
    "P8": (
        "test_toolpack_files::test_the_code_of_a_tool_is_what_its_command_leads_to",
        "test_toolpack_files::test_each_part_of_a_request_is_what_an_http_tool_runs",
        "test_baseline::test_a_tool_of_a_pack_is_held_when_what_it_runs_changes",
    ),
    "A3": (
        "test_suspicion::test_an_attack_is_pointed_out",
        "test_suspicion::test_what_a_terminal_would_obey_is_shown_by_its_number",
        "test_trust::test_a_changed_tool_and_an_added_server_wait_and_no_agent_lets_them_in",
        "test_suspicion::test_what_was_not_looked_at_is_said",
    ),
}
