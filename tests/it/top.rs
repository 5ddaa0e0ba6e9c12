//! `dikala top` in a terminal, as a table, and as a document.

use dikala_testkit::free_port;

use crate::support::{prelude::*, server::assert_fails, terminal::Terminal};

const FULL: &str = "the-operators-full-token";
const READ: &str = "the-operators-read-token";
/// Escape sequences that enter and leave the alternate screen.
const TAKEN: &str = "\u{1b}[?1049h";
const GIVEN_BACK: &str = "\u{1b}[?1049l";

#[actix_web::test]
async fn figures_are_those_of_the_listener() {
    let world = world!(Sqlite);
    let (server, tenant) = (&world.server, &world.tenant);
    let bridge = tenant.bridge(Http).await;
    let call = bridge.talk(&tenant.did).await;
    let top = server.cli(&["top", "--url", &server.operator]);
    assert_eq!(top["overview"]["node"], "main");
    let figures = top["overview"]["figures"].as_array().unwrap();
    let now = figures.iter().find(|figure| figure["name"] == "calls_now");
    assert_eq!(now.unwrap()["value"], 1, "{top}");
    let rates = top["actors"].as_array().unwrap().iter();
    let mut rates = rates.map(|actor| &actor["messagesPerSecond"]);
    assert!(rates.all(Value::is_number), "it waits for them: {top}");
    let api = Rest::new(&format!("{}/operator/v1", server.operator));
    let actors = api.get("/actors").await.expect(200);
    let names = |document: &Value| -> Vec<Value> {
        let actors = document["actors"].as_array().unwrap();
        actors.iter().map(|actor| actor["type"].clone()).collect()
    };
    assert_eq!(names(&top), names(&actors));
    assert!(!top["eventLoops"].as_array().unwrap().is_empty());

    // The same as a table, with the configured address by default.
    let table = server.installation.run(&["top", "--once"]);
    assert_eq!((table.code, table.stderr.as_str()), (Some(0), ""));
    for words in [
        "main 0.",
        "Calls now",
        "credit_ledger",
        "handling p99",
        "core-0",
    ] {
        assert!(table.stdout.contains(words), "{words}: {}", table.stdout);
    }
    bridge.hang_up(&call).await;
}

#[actix_web::test]
async fn tokens_are_asked_for_and_go_nowhere_else() {
    let setup = WorldSetup::new()
        .set("operator.token", FULL)
        .set("operator.read_token", READ)
        .set("http.unauthenticated_requests_per_minute", 100_000);
    let mut world = world!(Sqlite, setup);
    let url = world.server.operator.clone();
    // The configured token is not sent to another address.
    let once = ["top", "--once", "--url", &url];
    assert_fails(
        &world.server.installation.run(&once),
        &[6],
        "DIKALA_OPERATORS_TOKEN",
    );
    let wrong = [&once[..], &["--token", "a-wrong-token-of-somebody"]].concat();
    let refused = world.server.installation.run(&wrong);
    assert_fails(&refused, &[6], "this token");
    assert!(!refused.stderr.contains("a-wrong-token-of-somebody"));
    for token in [FULL, READ] {
        let right = [&once[..], &["--token", token]].concat();
        assert_eq!(world.server.installation.run(&right).code, Some(0));
    }
    let configured = world.server.installation.run(&["top", "--once"]);
    assert_eq!(configured.code, Some(0), "{configured:?}");
    let settings = &mut world.server.installation.settings;
    settings.push(("DIKALA_OPERATORS_URL".to_owned(), url));
    settings.push(("DIKALA_OPERATORS_TOKEN".to_owned(), READ.to_owned()));
    let installation = &world.server.installation;
    let by_variables = installation.run(&["top", "--once"]);
    assert_eq!(by_variables.code, Some(0), "{by_variables:?}");
    // These variables are no configuration keys, and help does not show the token.
    installation.cli(&["tenant", "list"]);
    let help = installation.run(&["top", "--help"]).stdout;
    assert!(
        help.contains("DIKALA_OPERATORS_TOKEN") && !help.contains(READ),
        "{help}"
    );
}

#[test]
fn without_a_service_or_a_terminal_it_says_what_to_do() {
    let installation = Installation::new(Sqlite).unwrap();
    let nowhere = format!("http://127.0.0.1:{}", free_port());
    for (arguments, code, names) in [
        (
            &["top", "--once", "--url", &nowhere][..],
            1,
            nowhere.as_str(),
        ),
        (&["top", "--json", "--url", &nowhere], 1, "--url"),
        (&["top", "--url", &nowhere], 2, "--once"),
        (&["top", "--once", "--url", "here"], 2, "here"),
    ] {
        assert_fails(&installation.run(arguments), &[code], names);
    }
}

#[actix_web::test]
async fn the_public_listener_is_not_taken_for_the_operators() {
    let world = world!(Sqlite);
    let finished = world
        .server
        .installation
        .run(&["top", "--once", "--url", &world.server.http]);
    assert!(matches!(finished.code, Some(1 | 6)), "{finished:?}");
    assert!(finished.stderr.contains(&world.server.http), "{finished:?}");
}

/// Runs `dikala top` between two reports of the terminal's settings.
fn watched(server: &Server) -> Terminal {
    let lines = format!(
        "stty -g; sh -c 'echo pid=$$; exec {} top --url {}'; echo code=$?; stty -g",
        env!("CARGO_BIN_EXE_dikala"),
        server.operator
    );
    Terminal::run(&server.installation, &lines)
}

/// Asserts that the terminal was restored and that the program succeeded.
fn assert_sane(shown: &str) {
    assert_eq!(shown.matches(TAKEN).count(), 1, "{shown:?}");
    let (before, after) = shown
        .rsplit_once(GIVEN_BACK)
        .expect("it gives the screen back");
    assert!(after.contains("code=0"), "{after:?}");
    assert!(
        after.contains("\u{1b}[?25h") || shown.contains("\u{1b}[?25h"),
        "the cursor is shown again"
    );
    let settings = |text: &str| -> String {
        let mut lines = text.lines().map(str::trim);
        lines
            .find(|line| line.matches(':').count() > 20)
            .expect("what stty said")
            .to_owned()
    };
    assert_eq!(settings(before), settings(after));
}

#[rstest]
#[case::q("q")]
#[case::escape("\u{1b}")]
#[case::interrupt("\u{3}")]
#[actix_web::test]
async fn a_key_ends_it_and_leaves_the_terminal_as_it_was(#[case] key: &str) {
    let world = world!(Sqlite);
    let mut terminal = watched(&world.server);
    terminal.shows("credit_ledger").await;
    terminal.press(key);
    let (shown, _) = terminal.ended().await;
    assert_sane(&shown);
}

#[actix_web::test]
async fn sigterm_leaves_the_terminal_as_it_was() {
    let world = world!(Sqlite);
    let terminal = watched(&world.server);
    let shown = terminal.shows("credit_ledger").await;
    let pid = shown
        .lines()
        .find_map(|line| line.trim().strip_prefix("pid="))
        .unwrap();
    let killed = std::process::Command::new("kill")
        .args(["-TERM", pid])
        .status();
    assert!(killed.unwrap().success());
    let (shown, _) = terminal.ended().await;
    assert_sane(&shown);
}

#[actix_web::test]
async fn it_outlives_a_listener_that_goes_and_comes_back() {
    let mut world = world!(Sqlite);
    let mut terminal = watched(&world.server);
    terminal.shows("credit_ledger").await;
    world.server.kill9();
    terminal.shows("nothing answers").await;
    let before = terminal.shown().len();
    world.server.restart();
    eventually("it to be back", async || {
        let shown = terminal.shown();
        // The first lines report that nothing is wrong, or the problems.
        shown[before..].contains(['✓', '!']).then_some(())
    })
    .await;
    terminal.press("q");
    let (shown, _) = terminal.ended().await;
    assert_sane(&shown);
}
