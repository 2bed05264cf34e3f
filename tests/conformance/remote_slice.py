"""Which conformance tests run on the real remote database in every run, and which in `make proof`.

Asked by tests/conftest.py when it makes the rows of the handle kind `remote`. tursodb answers some
80 requests a second one after the other, so the whole suite takes minutes there:
`MQLITE_REMOTE=all` runs it (`make proof` does), a plain run takes CHOSEN, in which every verb
(test_remote_slice.py) and every pass comes at least once.
"""

from __future__ import annotations

import os
from typing import Final

CHOSEN: Final = frozenset({
    "test_a_batch_answers_each_pair_for_itself",
    "test_a_batch_of_live_and_dead_leases_is_answered_one_by_one",
    "test_a_deferred_message_is_received_by_number_only",
    "test_a_delayed_abandon_is_scheduled_until_its_time_and_no_longer",
    "test_a_message_is_delivered_at_most_the_limit_by_abandons",
    "test_a_message_is_stored_once_for_each_subscription",
    "test_a_message_of_own_kinds_is_stored_as_plain_ones",
    "test_a_new_key_is_echoed_with_a_token_that_is_nowhere_else",
    "test_a_new_ordering_holds_for_what_is_there",
    "test_a_redriven_message_takes_its_old_place_in_line",
    "test_a_released_message_was_never_delivered",
    "test_a_renewal_starts_the_lock_duration_anew_under_the_same_token",
    "test_a_repetition_gets_the_same_answer_and_stores_nothing",
    "test_a_revoked_key_says_so_and_the_first_time_stays",
    "test_a_scheduled_message_is_delivered_at_the_first_pass_at_its_time_and_never_early",
    "test_a_send_wakes_a_waiting_receive",
    "test_a_strict_queue_has_one_message_in_flight_whatever_the_groups",
    "test_a_subscription_gets_what_its_filter_lets_through",
    "test_a_transaction_takes_own_kinds",
    "test_an_empty_queue_is_deleted_by_its_generation",
    "test_an_expired_lock_comes_back_with_its_count_at_the_pass_and_not_before",
    "test_cancel_deletes_a_scheduled_message_once",
    "test_complete_removes_the_message",
    "test_concurrent_consumers_never_hold_one_message_at_once",
    "test_concurrent_sends_of_one_id_store_one_message",
    "test_each_state_can_be_asked_for",
    "test_every_field_comes_back_as_it_was_sent",
    "test_every_state_has_its_reason",
    "test_in_a_batch_a_conflict_is_a_zero_and_the_others_are_stored",
    "test_in_place_it_takes_its_old_place_in_line",
    "test_of_concurrent_settlements_exactly_one_verb_wins",
    "test_one_message_of_a_group_is_in_flight_and_other_groups_flow",
    "test_only_active_messages_go",
    "test_purge_deletes_dead_letters_alone",
    "test_receive_and_delete_removes_the_message_and_shows_no_lease",
    "test_reject_dead_letters_with_the_reason",
    "test_the_counts_are_those_of_stats_and_dead_letters_have_depth_and_age",
    "test_the_pass_takes_expired_messages_of_every_state",
    "test_the_same_id_and_body_is_stored_once",
    "test_the_same_id_returns_the_same_batch_and_counts_one_delivery",
    "test_an_empty_subscription_is_gone_and_gets_nothing_any_more",
    "test_to_discard_needs_the_generation_and_takes_every_state",
    "test_what_is_given_changes_and_the_rest_stays",
})  # fmt: skip

UNFIT: Final = {
    "test_a_page_stops_after_the_message_that_fills_it": "a page holds 4 MiB there, not 16",
    "test_a_batch_of_forty_thousand_pairs_is_answered": "a minute's work for that server",
}
"""What is not run on a remote database at all, and why."""

IS_WHOLE: Final = os.environ.get("MQLITE_REMOTE", "") == "all"


def runs_remotely(test: str) -> bool:
    """Whether the test of this name is run on the remote database now."""
    return test not in UNFIT and (IS_WHOLE or test in CHOSEN)
