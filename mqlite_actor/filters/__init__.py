"""The filter language of subscriptions: text in, one yes or no per message out."""

from mqlite_actor.filters.compile import Filter, compile_filter
from mqlite_actor.filters.environment import Facts
from mqlite_actor.filters.faults import FilterFailed

__all__ = ["Facts", "Filter", "FilterFailed", "compile_filter"]
