"""ComboService and ModelMappingService."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from sqlalchemy import Engine, text

from decision_service.registry import combos
from decision_service.roster_source.shadowing import shadowing
from decision_service.store import sql
from omniroute.registry.v1 import registry_pb2 as pb
from service_kit.errors import Reason, ServiceError
from tests.decision_service.registry.conftest import Running


def message(
    name: str = "mine", strategy: str = "priority", steps: Any = None, config: Any = None, **rest: Any
) -> pb.Combo:
    combo = pb.Combo(name=name, strategy=strategy, **rest)
    for step in [{"model": "openai/gpt-4o"}] if steps is None else steps:
        combo.steps.add(**step)
    if config is not None:
        combo.config.CopyFrom(struct(config))
    return combo


def struct(values: dict[str, Any]) -> Struct:
    made = Struct()
    made.update(values)
    return made


async def create(live: Running, *args: Any, **fields: Any) -> pb.CreateComboResponse:
    request = pb.CreateComboRequest(combo=message(*args, **fields))
    return await live.call("ComboService", "CreateCombo", request)  # type: ignore[no-any-return]


async def update(live: Running, combo: pb.Combo, *mask: str) -> pb.UpdateComboResponse:
    request = pb.UpdateComboRequest(combo=combo, update_mask=FieldMask(paths=mask) if mask else None)
    return await live.call("ComboService", "UpdateCombo", request)  # type: ignore[no-any-return]


async def delete(live: Running, combo: pb.Combo) -> None:
    await live.call("ComboService", "DeleteCombo", pb.DeleteComboRequest(id=combo.id))


async def map_to(live: Running, pattern: str, combo: str, **rest: Any) -> pb.ModelMapping:
    request = pb.CreateModelMappingRequest(mapping=pb.ModelMapping(pattern=pattern, combo=combo, **rest))
    answer = await live.call("ModelMappingService", "CreateModelMapping", request)
    return answer.mapping  # type: ignore[no-any-return]


def ref(name: str) -> dict[str, str]:
    return {"kind": "combo-ref", "combo_name": name}


async def test_a_combo_is_in_the_roster_when_the_answer_comes(live: Running) -> None:
    steps = [
        {"step_id": "a", "model": "openai/gpt-4o", "connection_id": "c1", "weight": 2.5, "prompt": "p", "label": "l"},
        {"model": "anthropic/claude-haiku-4-5", "max_concurrent": 0},
    ]
    config = {"stickyWeightedLimit": 5, "auto": {"weights": {"quota": "0.5"}}, "resetWindowWindows": ["weekly"]}
    made = (await create(live, "mine", "weighted", steps, config, description="for the test")).combo
    assert (made.version, made.id.startswith("combo_"), made.description) == (1, True, "for the test")
    assert [step.step_id for step in made.steps] == ["a", made.steps[1].step_id]
    assert made.steps[1].HasField("max_concurrent")
    assert MessageToDict(made.config) == config
    combo = live.source.snapshot.roster.combos["mine"]
    assert (combo.strategy, combo.config.sticky_weighted_limit, combo.version) == ("weighted", 5, 1)
    assert (combo.steps[0].connection, combo.steps[0].weight, combo.steps[1].max_concurrent) == ("c1", 2.5, 0)
    got = await live.call("ComboService", "GetCombo", pb.GetComboRequest(id=made.id))
    assert got.combo == made


@pytest.mark.parametrize(
    ("args", "field"),
    [
        (("",), "name"),
        (("auto/fast",), "name"),
        (("x", "quota-share"), "strategy"),
        (("x", "priority", []), "steps"),
        (("x", "priority", [{"model": "nobody/x"}]), "steps[0].model"),
        (("x", "priority", [{"model": "openai/x", "connection_id": "c2"}]), "steps[0].connectionId"),
        (("x", "priority", [{"model": "openai/x", "weight": float("nan")}]), "steps[0].weight"),
        (("x", "priority", [ref("nobody")]), "steps[0].comboName"),
        (("x", "priority", None, {"fusionTuning": {"minPanel": float("nan")}}), "config.fusionTuning.minPanel"),
        (("x", "auto", None, {"auto": {"weights": {"nope": 1}}}), "config.auto.weights.nope"),
        (("x", "auto", None, {"routerStrategy": "unregistered"}), "config.routerStrategy"),
        (("x", "fusion", None, {"quotaShare": True}), "config.quotaShare"),
    ],
)
async def test_bad_combos_are_refused_and_nothing_is_stored(live: Running, args: Any, field: str) -> None:
    before = live.source.snapshot
    with pytest.raises(ServiceError) as caught:
        await create(live, *args)
    assert (caught.value.reason, caught.value.field) == (Reason.INVALID_FIELD, field)
    assert live.source.snapshot is before


async def test_names_and_ids_are_taken_once(live: Running) -> None:
    await create(live, "mine", id="one")
    for fields, field in (({"name": "mine"}, "name"), ({"name": "other", "id": "one"}, "id")):
        with pytest.raises(ServiceError) as caught:
            await create(live, **fields)
        assert (caught.value.reason, caught.value.field) == (Reason.ALREADY_EXISTS, field)
    with pytest.raises(ServiceError) as caught:
        await create(live, "other", id="auto")
    assert caught.value.field == "id"


async def test_a_name_that_is_a_model_is_stored_with_a_warning(live: Running) -> None:
    for name, model, provider in (
        ("gpt-4o", "gpt-4o", "openai"),
        ("openai/gpt-4o", "gpt-4o", "openai"),
        ("mistral-large-latest", "mistral-large-latest", "mistral"),
        ("tiny", "tiny", "demo"),
    ):
        warning = (await create(live, name)).warning
        assert warning.code == "COMBO_NAME_SHADOWS_MODEL"
        assert (warning.model_id, warning.provider_id) == (model, provider)
    assert not (await create(live, "no-such-model")).HasField("warning")
    assert not (await create(live, "auto")).HasField("warning")
    shadows = shadowing(live.source.snapshot, live.source.around)
    assert [shadow.combo for shadow in shadows] == ["gpt-4o", "mistral-large-latest", "openai/gpt-4o", "tiny"]


async def test_an_update_keeps_the_ids_of_the_steps_and_counts_the_version(live: Running) -> None:
    made = (await create(live, steps=[{"model": "openai/a"}, {"model": "openai/b"}])).combo
    ids = [step.step_id for step in made.steps]
    turned = message(id=made.id, steps=[{"model": "openai/b"}, {"model": "openai/c"}, {"model": "openai/a"}])
    changed = (await update(live, turned, "steps")).combo
    assert [changed.steps[0].step_id, changed.steps[2].step_id] == ids[::-1]
    assert (changed.version, live.source.snapshot.roster.combos["mine"].version) == (2, 2)


async def test_a_mask_changes_what_it_names_alone(live: Running) -> None:
    made = (await create(live, config={"quotaShare": True}, description="d")).combo
    changed = (await update(live, pb.Combo(id=made.id, strategy="random"), "strategy")).combo
    assert (changed.strategy, changed.description, changed.steps[0].model) == ("random", "d", "openai/gpt-4o")
    assert MessageToDict(changed.config) == {"quotaShare": True}
    with pytest.raises(ServiceError, match=r"config\.quotaShare"):
        await update(live, pb.Combo(id=made.id, strategy="fusion"), "strategy")
    whole = (await update(live, message(id=made.id, name="mine"))).combo
    assert (MessageToDict(whole.config), whole.description) == ({}, "")


async def test_references_hold_combos_in_place(live: Running) -> None:
    inner = (await create(live, "inner")).combo
    await create(live, "outer", steps=[ref("inner")])
    for attempt, told in (
        (delete(live, inner), "'outer'"),
        (update(live, pb.Combo(id=inner.id, name="renamed"), "name"), "'outer'"),
    ):
        with pytest.raises(ServiceError, match=told) as caught:
            await attempt
        assert caught.value.reason is Reason.CONFLICT
    for change, mask in (
        (pb.Combo(id=inner.id, strategy="pipeline"), "strategy"),
        (message(id=inner.id, steps=[ref("outer")]), "steps"),
    ):
        with pytest.raises(ServiceError) as caught:
            await update(live, change, mask)
        assert caught.value.reason is Reason.INVALID_FIELD
    assert live.source.snapshot.roster.combos["inner"].strategy == "priority"


async def test_mappings_hold_combos_in_place(live: Running) -> None:
    made = (await create(live, "mine")).combo
    mapping = await map_to(live, "gpt-*", "mine", priority=3)
    with pytest.raises(ServiceError, match=r"gpt-\*") as caught:
        await delete(live, made)
    assert caught.value.reason is Reason.CONFLICT
    await live.call("ModelMappingService", "DeleteModelMapping", pb.DeleteModelMappingRequest(id=mapping.id))
    await delete(live, made)
    assert "mine" not in live.source.snapshot.roster.combos


async def test_a_combo_can_be_renamed(live: Running) -> None:
    made = (await create(live, "mine")).combo
    await update(live, pb.Combo(id=made.id, name="yours"), "name")
    assert list(live.source.snapshot.roster.combos) == ["yours"]


async def test_a_stale_etag_is_a_conflict(live: Running) -> None:
    made = (await create(live)).combo
    await update(live, pb.Combo(id=made.id, description="x", etag=made.etag), "description")
    with pytest.raises(ServiceError) as caught:
        await update(live, pb.Combo(id=made.id, description="y", etag=made.etag), "description")
    assert caught.value.reason is Reason.CONFLICT


async def test_effective_values_tell_their_layer(live: Running) -> None:
    made = (await create(live, config={"explorationRate": 0.25})).combo
    values = {each.key: (each.value, each.layer) for each in made.effective}
    assert values["explorationRate"][0].number_value == 0.25
    assert values["explorationRate"][1] == "combo"
    assert (values["stickyRoundRobinLimit"][0].number_value, values["stickyRoundRobinLimit"][1]) == (3, "default")
    weights = values["auto.weights"][0].struct_value
    assert sum(weight for weight in weights.values() if isinstance(weight, float)) == pytest.approx(1.0)
    settings = pb.Settings(values=struct({"comboStickyRoundRobinLimit": 9}))
    await live.call("SettingsService", "UpdateSettings", pb.UpdateSettingsRequest(settings=settings))
    got = (await live.call("ComboService", "GetCombo", pb.GetComboRequest(id=made.id))).combo
    layers = {each.key: (each.value.number_value, each.layer) for each in got.effective}
    assert layers["stickyRoundRobinLimit"] == (9, "global")


async def test_a_nadir_key_is_kept_sealed_and_never_shown(live: Running, store: Engine) -> None:
    config = {"nadir": {"apiKey": "nadir-hush", "timeoutMs": 500}}
    made = (await create(live, strategy="auto", config=config)).combo
    assert MessageToDict(made.config) == {"nadir": {"timeoutMs": 500}}
    assert "hush" not in str(made)
    with store.connect() as connection:
        assert "nadir-hush" not in repr(connection.execute(text("SELECT * FROM combos")).all())
    assert combos.nadir_key(live.registry, "mine") == "nadir-hush"
    await update(live, message(id=made.id, strategy="auto", config={"nadir": {"timeoutMs": 600}}))
    assert combos.nadir_key(live.registry, "mine") == "nadir-hush"
    await update(live, message(id=made.id, config={"nadir": {"apiKey": ""}}), "config")
    assert combos.nadir_key(live.registry, "mine") == ""
    assert combos.nadir_key(live.registry, "nobody") == ""


async def test_every_change_is_audited_without_values(live: Running, store: Engine) -> None:
    made = (await create(live)).combo
    await update(live, pb.Combo(id=made.id, description="a private remark"), "description")
    await delete(live, made)
    with sql.reading(store) as connection:
        lines = connection.execute(text("SELECT action, kind, key, fields, request_id FROM audit")).all()
    mine = [line for line in lines if line.kind == "combo"]
    assert [(line.action, line.key) for line in mine] == [(a, made.id) for a in ("create", "update", "delete")]
    assert mine[1].fields == '["description"]'
    assert all(line.request_id for line in mine)
    assert "private" not in repr(lines)


async def test_combos_come_in_pages_oldest_first(live: Running) -> None:
    names = [f"n{n}" for n in range(5)][::-1]
    for name in names:
        await create(live, name)
    found: list[str] = []
    token = ""
    while not found or token:
        page = await live.call("ComboService", "ListCombos", pb.ListCombosRequest(page_size=3, page_token=token))
        found += [combo.name for combo in page.combos]
        token = page.next_page_token
    assert sorted(found) == sorted(names)


# Mappings


async def test_mappings(live: Running) -> None:
    await create(live, "a")
    await create(live, "b")
    made = await map_to(live, "gpt-*", "a", priority=5, id="m1")
    await map_to(live, "gpt-4?", "b", priority=5)
    await map_to(live, "*", "a", priority=7)
    assert [m.pattern for m in live.source.snapshot.roster.mappings] == ["*", "gpt-4?", "gpt-*"]
    mask = FieldMask(paths=["combo"])
    request = pb.UpdateModelMappingRequest(
        mapping=pb.ModelMapping(id="m1", combo="b", etag=made.etag), update_mask=mask
    )
    changed = (await live.call("ModelMappingService", "UpdateModelMapping", request)).mapping
    assert (changed.combo, changed.pattern, changed.priority) == ("b", "gpt-*", 5)
    got = await live.call("ModelMappingService", "GetModelMapping", pb.GetModelMappingRequest(id="m1"))
    assert got.mapping == changed
    listed = await live.call("ModelMappingService", "ListModelMappings", pb.ListModelMappingsRequest())
    assert len(listed.mappings) == 3
    with pytest.raises(ServiceError) as caught:
        await live.call("ModelMappingService", "UpdateModelMapping", request)
    assert caught.value.reason is Reason.CONFLICT


@pytest.mark.parametrize(
    ("pattern", "combo", "rest", "reason", "field"),
    [
        ("", "a", {}, Reason.INVALID_FIELD, "pattern"),
        ("x" * 257, "a", {}, Reason.INVALID_FIELD, "pattern"),
        ("x", "", {}, Reason.INVALID_FIELD, "combo"),
        ("x", "nobody", {}, Reason.INVALID_FIELD, "combo"),
        ("gpt-*", "a", {}, Reason.ALREADY_EXISTS, "pattern"),
        ("y", "a", {"id": "m1"}, Reason.ALREADY_EXISTS, "id"),
    ],
)
async def test_bad_mappings_are_refused(
    live: Running, pattern: str, combo: str, rest: dict[str, Any], reason: Reason, field: str
) -> None:
    await create(live, "a")
    await map_to(live, "gpt-*", "a", id="m1")
    with pytest.raises(ServiceError) as caught:
        await map_to(live, pattern, combo, **rest)
    assert (caught.value.reason, caught.value.field) == (reason, field)
    await map_to(live, "gpt-*", "a", priority=1)
