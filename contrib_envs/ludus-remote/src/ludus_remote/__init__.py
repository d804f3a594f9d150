"""Games in processes of their own, in any language, that play by the protocol of docs/game-protocol.md."""
