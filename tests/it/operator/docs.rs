//! The commands of docs/operators.md work as written.

use std::process::Command;

use super::*;

/// The shell commands of a page, in order.
fn lines(page: &str) -> String {
    let blocks = page.split("```sh\n").skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap())
        .collect::<Vec<_>>()
        .join("\n")
}

#[rstest]
#[actix_web::test]
async fn every_line_of_the_page_works(#[values(FULL, "")] token: &str) {
    let setup = match token {
        "" => WorldSetup::new(),
        _ => guarded(),
    };
    let world = world!(Sqlite, setup);
    let page = include_str!("../../../docs/operators.md");
    let script = lines(page)
        .replace("http://127.0.0.1:8081", &world.server.operator)
        .replacen("TOKEN= ", &format!("TOKEN={token} "), 1);
    assert!(script.lines().count() > 30, "{script}");
    let output = Command::new("bash")
        .args(["-euxo", "pipefail", "-c", &script])
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    let answers = String::from_utf8(output.stdout).unwrap();
    for told in [
        "\"url\":\"http",
        "\"balanceMinutes\":500",
        "\"maxConcurrentCalls\":20",
        "\"label\":\"Orders\"",
        "\"differences\":[]",
        "\"action\":\"tenant.suspend\"",
    ] {
        assert!(answers.contains(told), "no {told} in {answers}");
    }
}
