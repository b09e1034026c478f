"""A request to be routed, as a person gives it on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from omniroute.decision.v1 import decision_pb2 as pb

MOST_COUNT, MOST_SEED = 2**32 - 1, 2**64 - 1
REQUEST_PANEL, CONTROLS_PANEL = "Request", "Controls of this request"

ModelArgument = Annotated[str, typer.Argument(help="auto, auto/CHANNEL, a combo, PROVIDER/MODEL or a model id.")]


def _of_request(help_: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help_, rich_help_panel=REQUEST_PANEL, **more)


def _count(help_: str, *names: str) -> Any:
    return _of_request(help_, *names, min=0, max=MOST_COUNT)


def _control(help_: str, **more: Any) -> Any:
    return typer.Option(help=help_, rich_help_panel=CONTROLS_PANEL, **more)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is known of the request, beside its model."""

    key: Annotated[str, _of_request("Id of the API key whose exclusions and limits apply.")] = ""
    session: Annotated[str, _of_request("Conversation, for stickiness.")] = ""
    input_tokens: Annotated[int, _count("Input tokens.")] = 0
    max_output: Annotated[int | None, _count("Output limit of the request, tokens.")] = None
    tools: Annotated[bool, _of_request("The request offers tools.", "--tools")] = False
    vision: Annotated[bool, _of_request("The request carries an image.", "--vision")] = False
    audio: Annotated[bool, _of_request("The request carries audio or asks for it.", "--audio")] = False
    structured: Annotated[bool, _of_request("The request asks for structured output.", "--structured")] = False
    embeddings: Annotated[bool, _of_request("Embeddings instead of a chat completion.", "--embeddings")] = False
    task: Annotated[str, _of_request("Task type: coding, review, planning, analysis, debugging ...")] = ""
    seed: Annotated[int | None, _of_request("Seed of every draw.", min=0, max=MOST_SEED)] = None
    mode: Annotated[str, _control("Weights: fast, quality, cheap, reliable, offline or a pack's name.")] = ""
    budget: Annotated[float, _control("Most that the request may cost, USD.")] = 0.0
    budget_fallback: Annotated[str, _control("When all cost more: cheapest or strict.")] = ""
    min_context: Annotated[int, _control("Smallest context window, tokens.", min=0, max=MOST_COUNT)] = 0
    effort: Annotated[str, _control("auto lets the service choose a reasoning effort.")] = ""

    def request(self, model: str, *, trace: bool = False) -> pb.DecideRequest:
        """The request for the decision service."""
        return pb.DecideRequest(
            model=model,
            api_key_id=self.key,
            session_id=self.session,
            session_explicit=bool(self.session),
            seed=self.seed,
            include_trace=trace,
            features=pb.RequestFeatures(
                operation=pb.OPERATION_EMBEDDINGS if self.embeddings else pb.OPERATION_CHAT,
                input_tokens=self.input_tokens,
                max_output_tokens=self.max_output,
                has_tools=self.tools,
                tool_count=int(self.tools),
                needs_vision=self.vision,
                needs_audio=self.audio,
                needs_structured_output=self.structured,
                task_type=self.task,
            ),
            controls=pb.RequestControls(
                mode=self.mode,
                budget_usd=self.budget,
                budget_fallback=self.budget_fallback,
                min_context_tokens=self.min_context,
                effort=self.effort,
            ),
        )
