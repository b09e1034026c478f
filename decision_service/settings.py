"""The decision service's settings: one frozen value, read once from the environment (prefix ``OMNIROUTE_``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from service_kit.addresses import PLACE
from service_kit.log import LEVELS


@dataclass(frozen=True, slots=True)
class DecisionSettings:
    """Each field is the variable ``OMNIROUTE_<FIELD>``.

    ``max_connection_age_s`` makes clients reconnect, so that they find new replicas; 0: never. In ``arena_elo_url`` the
    text ``{board}`` stands for a board's name; an empty URL leaves its source out. ``nadir_api_key`` and
    ``nadir_base_url`` are for combos that have none of their own.
    """

    decision_bind: str = field(default="127.0.0.1:50051", metadata=PLACE)
    decision_metrics_host: str = "127.0.0.1"
    decision_metrics_port: int = field(default=50061, metadata={"least": 0, "most": 65_535})
    data_dir: Path = Path("data")
    database_url: str = field(default="", metadata={"secret": True})
    secret_key: str = field(default="", metadata={"secret": True})
    executor_token: str = field(default="", metadata={"secret": True})
    edge_token: str = field(default="", metadata={"secret": True})
    admin_token: str = field(default="", metadata={"secret": True})
    demo_providers: str = ""
    chaos_max_panel: int = field(default=5, metadata={"least": 1, "most": 10})
    outcome_retention_days: int = field(default=7, metadata={"least": 1, "most": 3650})
    max_connection_age_s: int = field(default=0, metadata={"least": 0})
    decision_grace_s: float = field(default=5.0, metadata={"least": 0.0, "most": 3_600})
    arena_elo_sync_enabled: bool = field(default=False, metadata={"also": "ARENA_ELO_SYNC_ENABLED"})
    arena_elo_url: str = "https://api.wulong.dev/arena-ai-leaderboards/v1/leaderboard?name={board}"
    models_dev_url: str = "https://models.dev/api.json"
    nadir_api_key: str = field(default="", metadata={"secret": True})
    nadir_base_url: str = "https://api.getnadir.com"
    knowledge_sync_interval_s: float = field(default=86_400.0, metadata={"least": 60.0, "most": 2_592_000.0})
    log_level: str = field(default="info", metadata={"choices": LEVELS})
    log_json: bool = True
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_ca: Path | None = None
