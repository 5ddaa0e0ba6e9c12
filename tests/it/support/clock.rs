//! A PostgreSQL whose clock can be set.

use dikala_testkit::Place;

/// Lets the clock of a database be set that nobody uses yet.
pub async fn can_be_set(store: &Place) {
    // A function of the same name is found before PostgreSQL's own.
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

/// From now on it is off by so much.
pub async fn set(store: &Place, ms: i64) {
    let set = format!("UPDATE clock_off SET ms = {ms}");
    store.execute(&set).await;
}
