//! The API over real HTTP, on a real store. With `DIKALA_TEST_POSTGRES_URL` set, on a new database of that server instead of a
//! SQLite file.

mod agents;
mod calls;
mod credits;
mod deliveries;
mod description;
mod events;
mod functions;
mod gate;
mod idempotency;
mod lists;
mod numbers;
mod seed;
mod transport;
mod versions;
mod webhooks;
mod world;
