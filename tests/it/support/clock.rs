//! A PostgreSQL server whose clock can be set.

use dikala_testkit::StorePlace;

/// Makes the clock of an unused database settable.
pub async fn can_be_set(store: &StorePlace) {
    // The search path makes this function hide PostgreSQL's own.
    let database = store.url.rsplit_once('/').unwrap().1;
    let first_public =
        format!("ALTER DATABASE \"{database}\" SET search_path = public, pg_catalog");
    for sql in [
        "CREATE TABLE clock_off (ms BIGINT NOT NULL)",
        "INSERT INTO clock_off VALUES (0)",
        "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE SQL AS \
         'SELECT pg_catalog.clock_timestamp() + ms * interval ''1 millisecond'' FROM public.clock_off'",
        first_public.as_str(),
    ] {
        store.execute(sql).await;
    }
}

/// Sets the clock's offset.
pub async fn set(store: &StorePlace, ms: i64) {
    let set = format!("UPDATE clock_off SET ms = {ms}");
    store.execute(&set).await;
}
