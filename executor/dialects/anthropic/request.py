"""A chat completion as a request of the Messages API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from executor import estimates
from executor.dialects import conversation, wishes
from executor.dialects.anthropic.blocks import block, own_block, text_block
from executor.dialects.anthropic.traits import Sampling, Thinking, Traits, traits_of
from executor.dialects.conversation import Conversation, Text, Thought, ToolCall, Turn
from executor.dialects.frames import Untranslatable
from executor.dialects.json_only import JSON_ONLY, schema_asked_for, strict
from executor.model import Call, Operation, Target

LEAST_BUDGET = 1_024
BUDGETS: Mapping[str, int] = {
    "minimal": 1_024,
    "low": 2_048,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 32_768,
    "max": 49_152,
}
LOWER_EFFORT: Mapping[str, str] = {"minimal": "low", "xhigh": "high", "max": "high"}


def as_it_is(own: Mapping[str, Any], target: Target) -> dict[str, Any]:
    """The client's own body for this target. Of its content only reasoning that no vendor signed stays behind."""
    body = {**own, "model": target.model}
    if isinstance(own.get("messages"), list):
        messages = (_signed_only(message) for message in own["messages"])
        body["messages"] = [message for message in messages if message is not None]
    if target.prompt:
        given = own.get("system")
        blocks = [text_block(Text(given))] if isinstance(given, str) and given else given or []
        body["system"] = [text_block(Text(target.prompt)), *blocks]
    return body


def body_of(call: Call, target: Target) -> dict[str, Any]:
    """Raises Untranslatable."""
    asked = call.body
    if call.operation is not Operation.CHAT:
        raise Untranslatable("the target's dialect knows chat alone")
    wishes.refuse_unspoken(asked)
    traits = traits_of(target.model)
    spoken = conversation.read(asked.get("messages"), target.prompt)
    body: dict[str, Any] = {"model": target.model, "max_tokens": _max_tokens(call, target, traits)}
    body["messages"] = _messages(spoken.turns)
    body |= _tools(asked, spoken)
    if wishes.stop(asked):
        body["stop_sequences"] = [sequence for sequence in wishes.stop(asked) if sequence.strip()]
    if isinstance(asked.get("user"), str) and asked["user"]:
        body["metadata"] = {"user_id": asked["user"]}
    body |= _thinking(asked, traits, body, spoken)
    if "thinking" not in body:
        body |= _sampling(asked, traits)
    system = [*spoken.system, *_format(asked, traits, body)]
    if system:
        body["system"] = [text_block(text) for text in system]
    if call.stream:
        body["stream"] = True
    return body


def _max_tokens(call: Call, target: Target, traits: Traits) -> int:
    """What the client said, else as much as the model gives and its window leaves room for."""
    most = target.max_output_tokens
    asked = wishes.output_limit(call.body)
    if asked is not None:
        return min(asked, most) if most else asked
    limit = most or traits.max_output
    if not target.context_window:
        return limit
    # The estimate counts four characters a token; a third more keeps clear of texts that are denser.
    room = target.context_window - estimates.usage(call.body, 0).input * 4 // 3
    return max(1, min(limit, room))


def _messages(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """Blank texts are refused there, and blanks at the end of an answer that is to be gone on with."""
    messages: list[dict[str, Any]] = []
    for turn in turns:
        blocks = [block(part) for part in turn.parts if not (isinstance(part, Text) and not part.text.strip())]
        if blocks:
            messages.append({"role": turn.role, "content": blocks})
    if messages and messages[-1]["role"] == "assistant" and messages[-1]["content"][-1]["type"] == "text":
        last = messages[-1]["content"][-1]
        last["text"] = last["text"].rstrip()
    return messages


def _tools(asked: Mapping[str, Any], spoken: Conversation) -> dict[str, Any]:
    """Definitions and choice. A conversation that used tools has to define them, also when none may be called now."""
    offered, choice = wishes.tools(asked), wishes.choice(asked)
    if len(choice.names) > 1 or (choice.names and choice.mode == "auto"):
        offered = tuple(tool for tool in offered if tool.name in choice.names)
    if not offered:
        offered = tuple(wishes.Tool(name, "", wishes.EMPTY_SCHEMA) for name in dict.fromkeys(_called(spoken)))
        choice = wishes.Choice("none")
    if not offered:
        return {}
    kinds = {"auto": "auto", "none": "none", "required": "any"}
    picked: dict[str, Any] = {"type": kinds[choice.mode]}
    if choice.mode == "required" and len(choice.names) == 1:
        picked = {"type": "tool", "name": choice.names[0]}
    if asked.get("parallel_tool_calls") is False and choice.mode != "none":
        picked["disable_parallel_tool_use"] = True
    told = {} if picked == {"type": "auto"} else {"tool_choice": picked}
    return {"tools": [_tool(tool) for tool in offered], **told}


def _tool(tool: wishes.Tool) -> dict[str, Any]:
    told: dict[str, Any] = {"name": tool.name, "input_schema": tool.schema}
    if tool.description:
        told["description"] = tool.description
    if tool.cache:
        told["cache_control"] = tool.cache
    return told


def _called(spoken: Conversation) -> Iterator[str]:
    parts = (part for turn in spoken.turns for part in turn.parts)
    return (part.name for part in parts if isinstance(part, ToolCall))


def _thinking(
    asked: Mapping[str, Any], traits: Traits, body: Mapping[str, Any], spoken: Conversation
) -> dict[str, Any]:
    """Left out where the model or the rest of the request does not allow it: the answer is then merely less thought."""
    wanted = wishes.reasoning(asked)
    forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
    if wanted is None or wanted.effort == "none" or forced or traits.thinking is Thinking.NONE:
        return {}
    if traits.thinking is Thinking.ADAPTIVE:
        return {
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": _effort(wanted, traits)},
        }
    opened = conversation.tool_loop_is_open(spoken.turns)
    if opened is not None and not any(isinstance(part, Thought) for part in opened.parts):
        return {}
    budget = min(wanted.budget or BUDGETS.get(wanted.effort, BUDGETS["medium"]), body["max_tokens"] // 2)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= LEAST_BUDGET else {}


def _effort(wanted: wishes.Reasoning, traits: Traits) -> str:
    effort = wanted.effort
    if wanted.budget:
        effort = next((name for name, budget in BUDGETS.items() if wanted.budget <= budget), "high")
    if effort in traits.efforts:
        return effort
    return LOWER_EFFORT.get(effort, "medium")


def _sampling(asked: Mapping[str, Any], traits: Traits) -> dict[str, Any]:
    """OpenAI's temperatures go up to 2, these up to 1. Newer models take one of the two knobs, or neither."""
    temperature, top_p = (wishes.number(asked, field) for field in ("temperature", "top_p"))
    top_k = wishes.whole(asked, "top_k")
    told: dict[str, Any] = {}
    if traits.sampling is Sampling.NEITHER:
        return told
    if temperature is not None:
        told["temperature"] = min(1, max(0, temperature))
    if top_p is not None and (temperature is None or traits.sampling is Sampling.BOTH):
        told["top_p"] = top_p
    if top_k is not None:
        told["top_k"] = top_k
    return told


def _format(asked: Mapping[str, Any], traits: Traits, body: dict[str, Any]) -> list[Text]:
    """The output's format goes into the body where the model can be held to it, else into an instruction."""
    wanted = wishes.output_format(asked)
    if wanted.kind == "text":
        return []
    if wanted.kind == "json":
        return [Text(JSON_ONLY)]
    if not traits.schema:
        return [Text(schema_asked_for(wanted.schema))]
    config = body.setdefault("output_config", {})
    config["format"] = {"type": "json_schema", "schema": strict(wanted.schema)}
    return []


def _signed_only(message: Any) -> Any:
    """Reasoning of other vendors came to this client as thinking without a signature; Anthropic refuses such.

    None for a message that holds nothing else.
    """
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list) or all(map(own_block, content)):
        return message
    kept = [item for item in content if own_block(item)]
    return {**message, "content": kept} if kept else None
