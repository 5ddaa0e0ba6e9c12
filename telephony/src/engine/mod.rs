//! The client of `dikala.bridge.v1`: a WebSocket to the engine that outlives the engine's restarts.
