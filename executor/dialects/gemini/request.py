"""A chat completion as a request of generateContent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from executor.dialects import conversation, wishes
from executor.dialects.conversation import Text
from executor.dialects.frames import Untranslatable
from executor.dialects.gemini.parts import contents
from executor.model import Call, Target

SPOKEN = frozenset({"n"})
MAX_STOPS = 5
BUDGETS: Mapping[str, int] = {"minimal": 512, "low": 1_024, "medium": 8_192, "high": 24_576}
LEVELS: Mapping[str, str] = {"minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH"}
MODES: Mapping[str, str] = {"auto": "AUTO", "none": "NONE", "required": "ANY"}

_GENERATION = re.compile(r"gemini-(\d{1,2})(?:\.(\d{1,2}))?")
# Later generations are told a level of thinking, this one a number of tokens, and those before it cannot think.
BUDGETED = (2, 5)
LEVELLED = (3, 0)

Read = Callable[[Mapping[str, Any], str], float | None]
NUMBERS: Mapping[str, tuple[str, Read]] = MappingProxyType(
    {
        "temperature": ("temperature", wishes.number),
        "top_p": ("topP", wishes.number),
        "top_k": ("topK", wishes.whole),
        "seed": ("seed", wishes.whole),
        "presence_penalty": ("presencePenalty", wishes.number),
        "frequency_penalty": ("frequencyPenalty", wishes.number),
        "n": ("candidateCount", wishes.whole),
    }
)


def body_of(call: Call, target: Target) -> dict[str, Any]:
    """Raises Untranslatable."""
    asked = call.body
    wishes.refuse_unspoken(asked, SPOKEN)
    spoken = conversation.read(asked.get("messages"), target.prompt)
    body: dict[str, Any] = {"contents": contents(spoken, signs_calls=generation_of(target.model) >= LEVELLED)}
    if spoken.system:
        body["systemInstruction"] = {"parts": [_instruction(text) for text in spoken.system]}
    body |= _tools(asked)
    config = _numbers(asked) | _limits(asked, target) | _format(asked) | _thinking(asked, target.model)
    if config:
        body["generationConfig"] = config
    return body


def generation_of(model: str) -> tuple[int, int]:
    """The version of a Gemini model; what has none in its name is taken for a new one."""
    match = _GENERATION.search(model.lower())
    return (int(match[1]), int(match[2] or 0)) if match else LEVELLED


def _instruction(text: Text) -> dict[str, Any]:
    return {"text": text.text}


def _tools(asked: Mapping[str, Any]) -> dict[str, Any]:
    offered = wishes.tools(asked)
    if not offered:
        return {}
    choice = wishes.choice(asked)
    calling: dict[str, Any] = {"mode": MODES[choice.mode]}
    if choice.names and choice.mode == "auto":
        offered = tuple(tool for tool in offered if tool.name in choice.names)
    elif choice.names:
        calling["allowedFunctionNames"] = list(choice.names)
    told: dict[str, Any] = {"tools": [{"functionDeclarations": [_declaration(tool) for tool in offered]}]}
    if calling != {"mode": "AUTO"}:
        told["toolConfig"] = {"functionCallingConfig": calling}
    return told


def _declaration(tool: wishes.Tool) -> dict[str, Any]:
    told: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if tool.schema.get("properties") or tool.schema.get("type") != "object":
        told["parametersJsonSchema"] = tool.schema
    return told


def _numbers(asked: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: read(asked, field) for field, (name, read) in NUMBERS.items()}
    return {name: value for name, value in found.items() if value is not None}


def _limits(asked: Mapping[str, Any], target: Target) -> dict[str, Any]:
    """Without a limit the model's own holds."""
    told: dict[str, Any] = {}
    limit, stops = wishes.output_limit(asked), wishes.stop(asked)
    if limit is not None:
        told["maxOutputTokens"] = min(limit, target.max_output_tokens or limit)
    if len(stops) > MAX_STOPS:
        raise Untranslatable(f"stop holds {len(stops)} sequences, and the target's dialect takes {MAX_STOPS}")
    if stops:
        told["stopSequences"] = list(stops)
    if isinstance(asked.get("modalities"), list) and "image" in asked["modalities"]:
        told["responseModalities"] = ["TEXT", "IMAGE"]
    return told


def _format(asked: Mapping[str, Any]) -> dict[str, Any]:
    wanted = wishes.output_format(asked)
    if wanted.kind == "text":
        return {}
    told: dict[str, Any] = {"responseMimeType": "application/json"}
    if wanted.kind == "schema":
        told["responseJsonSchema"] = wanted.schema
    return told


def _thinking(asked: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Models that cannot think, and those that cannot leave it, are not told to."""
    wanted, generation = wishes.reasoning(asked), generation_of(model)
    if wanted is None or generation < BUDGETED:
        return {}
    if generation >= LEVELLED:
        return {"thinkingConfig": _level(wanted, model)}
    budget = wanted.budget if wanted.budget is not None else BUDGETS.get(wanted.effort, BUDGETS["high"])
    if wanted.effort == "none":
        return {} if "pro" in model else {"thinkingConfig": {"thinkingBudget": 0}}
    return {"thinkingConfig": {"thinkingBudget": budget, "includeThoughts": True}}


def _level(wanted: wishes.Reasoning, model: str) -> dict[str, Any]:
    if wanted.budget is not None:
        level = next((name for name, budget in BUDGETS.items() if wanted.budget <= budget), "high")
    else:
        level = "minimal" if wanted.effort == "none" else wanted.effort
    if "pro" in model and level == "minimal":
        level = "low"
    return {"thinkingLevel": LEVELS.get(level, "HIGH"), "includeThoughts": wanted.effort != "none"}
