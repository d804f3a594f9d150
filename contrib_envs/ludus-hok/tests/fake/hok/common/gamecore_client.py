"""The fake client of the game server, which no server is behind."""

from ..calls import record  # noqa: TID252 - what tests import absolutely must be a requirement


class GamecoreClient:
    """Starts and stops games."""

    def __init__(
        self,
        server_addr="127.0.0.1:23432",
        gamecore_req_timeout=30000,
        default_hero_config=None,
        max_frame_num=-1,
        simulator_type="remote",
    ):
        self.server_addr = server_addr
        self.max_frame_num = max_frame_num
        record(
            "GamecoreClient",
            server=server_addr,
            timeout=gamecore_req_timeout,
            frames=max_frame_num,
            type=simulator_type,
        )

    def start_game(self, runtime_id, servers, camp_hero_list, eval_mode=False):
        """Take what a game starts with."""
        record("start_game", runtime_id=runtime_id, servers=servers, camps=camp_hero_list, eval_mode=eval_mode)

    def stop_game(self, runtime_id):
        """Fail as without a server at port 1."""
        if self.server_addr.endswith(":1"):
            raise ConnectionError(f"no server at {self.server_addr}")
        record("stop_game", runtime_id=runtime_id)
