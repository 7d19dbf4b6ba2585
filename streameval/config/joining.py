"""From the [attribution] table to the front that joins."""

from __future__ import annotations

import msgspec

from streameval.attribution.interactions import InteractionDecoder, InteractionFields
from streameval.attribution.joint import Joint
from streameval.attribution.rules import Rules
from streameval.config.attribution import AttributionOptions, InteractionOptions
from streameval.config.durations import microseconds
from streameval.config.settings import Config
from streameval.pipeline.decode import Decoder
from streameval.pipeline.fields import EventFields
from streameval.pipeline.layout import Layout


def joint(config: Config, options: AttributionOptions, layout: Layout) -> Joint:
    """What makes events of impressions and interactions.

    Raises:
        ConfigError: the fields of a record contradict each other.
    """
    interactions = [
        InteractionDecoder(interaction_fields(config, each), options.key)
        for each in options.interactions
    ]
    decoder = Decoder(
        impression_fields(config.event, options), config.dimensions(), shown_only=True
    )
    return Joint(
        decoder,
        interactions,
        options.streams,
        rules(config, options),
        layout,
    )


def rules(config: Config, options: AttributionOptions) -> Rules:
    """How they find each other."""
    dimensions = config.dimensions()
    return Rules(
        key=options.key,
        window=microseconds(options.window),
        lateness=microseconds(options.lateness),
        combine=options.combine,
        per=tuple(dimensions.index(name) for name in options.per),
        max_open=options.max_open,
        max_bytes=options.max_bytes,
    )


def impression_fields(event: EventFields, options: AttributionOptions) -> EventFields:
    """Fields of an impression: those of an event, whose identity is the request."""
    by_request = "request_id" if options.key == "request_id" else None
    return msgspec.structs.replace(event, event_id=options.request_id or by_request)


def interaction_fields(config: Config, each: InteractionOptions) -> InteractionFields:
    """Fields of an interaction; what it does not say itself is as in [event]."""
    options, event = config.attribution, config.event
    by_request = options is None or options.key == "request_id"
    return InteractionFields(
        key=each.request_id if by_request else each.user or event.user,
        item=each.item,
        time=each.time or event.time or "",
        time_unit=each.time_unit or event.time_unit or "s",
        type=each.type,
        gain=each.gain,
        event_id=each.event_id,
        types=each.types,
        ignore=frozenset(each.ignore),
        ids=event.ids,
        max_id_bytes=event.max_id_bytes,
        max_label_bytes=event.max_label_bytes,
    )
