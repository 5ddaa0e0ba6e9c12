//! Generated completions and manual pages; every command has a description.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use crate::support::{prelude::*, server::assert_fails};

fn installation() -> Installation {
    Installation::new(Sqlite).unwrap()
}

/// Every command as typed, without groups.
fn commands(installation: &Installation) -> Vec<String> {
    let mut found = Vec::new();
    let mut ahead = vec![Vec::new()];
    while let Some(command) = ahead.pop() {
        let mut arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        arguments.push("--help");
        let help = installation.run(&arguments).stdout;
        let below = help.split("Commands:\n").nth(1).unwrap_or_default();
        let below = below.lines().take_while(|line| !line.trim().is_empty());
        // Continuation lines are indented further.
        let names = below.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let names: Vec<&str> = names
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        if names.is_empty() {
            found.push(command.join(" "));
        }
        for name in names.into_iter().filter(|name| *name != "help") {
            let mut deeper = command.clone();
            deeper.push(name.to_owned());
            ahead.push(deeper);
        }
    }
    found.sort();
    found
}

#[test]
fn every_command_is_told_of() {
    let installation = installation();
    let commands = commands(&installation);
    assert!(commands.len() > 40, "{commands:?}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut told = fs::read_to_string(root.join("README.md")).unwrap();
    for page in fs::read_dir(root.join("docs")).unwrap().flatten() {
        if page.path().extension().is_some_and(|kind| kind == "md") {
            told.push_str(&fs::read_to_string(page.path()).unwrap());
        }
    }
    let untold: Vec<_> = commands
        .iter()
        .filter(|command| !told.contains(&format!("dikala {command}")))
        .collect();
    assert!(
        untold.is_empty(),
        "neither README.md nor docs/ tells of {untold:?}"
    );
}

#[test]
fn each_command_has_a_page() {
    let installation = installation();
    let written = installation.cli(&["man", "--out", "man1"]);
    let folder = installation.folder.path().join("man1");
    let page = |command: &str| {
        let name = format!("dikala {command}.1").replace(' ', "-");
        fs::read_to_string(folder.join(name.replace("dikala-.1", "dikala.1")))
            .unwrap_or_else(|error| panic!("{command}: {error}"))
    };
    for command in commands(&installation) {
        let page = page(&command);
        assert!(
            page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"),
            "{command}: {page}"
        );
    }
    assert!(page("").contains("tenant"), "the first lists the others");
    assert!(page("credits add").contains("minutes"));
    let pages = fs::read_dir(&folder).unwrap().count();
    assert_eq!(written["pages"].as_array().unwrap().len(), pages);
    let finished = installation.run(&["man", "--out", "/proc/man1"]);
    assert_fails(&finished, &[1], "/proc/man1");
}

/// The completions of a shell; `None` if it is not installed.
fn completed(shell: &str, script: &str) -> Option<String> {
    let spawned = Command::new(shell)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = spawned else {
        println!("{shell} is not at hand: skipped");
        return None;
    };
    child
        .stdin
        .take()
        .unwrap()
        .write_all(script.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let faults = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && faults.is_empty(),
        "{shell}: {faults}"
    );
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn shells_complete_commands_and_options() {
    let installation = installation();
    let script = |shell: &str| {
        let finished = installation.run(&["completions", shell]);
        assert_eq!(finished.code, Some(0), "{finished:?}");
        finished.stdout
    };
    let bash = format!(
        "{}\nCOMP_WORDS=(dikala webhook re); COMP_CWORD=2; _dikala dikala re webhook; echo \"${{COMPREPLY[@]}}\"
COMP_WORDS=(dikala credits add --m); COMP_CWORD=3; _dikala dikala --m add; echo \"${{COMPREPLY[@]}}\"",
        script("bash")
    );
    let said = completed("bash", &bash).expect("bash is everywhere");
    assert_eq!(said.trim(), "resume recover\n--minutes");
    let fish = format!("{}\ncomplete -C 'dikala webhook re'", script("fish"));
    if let Some(said) = completed("fish", &fish) {
        assert!(
            said.contains("recover") && said.contains("resume"),
            "{said}"
        );
    }
    let zsh = format!(
        "autoload -U compinit; compinit -u -D\n{}\nwhence -w _dikala",
        script("zsh")
    );
    if let Some(said) = completed("zsh", &zsh) {
        assert!(said.contains("_dikala: function"), "{said}");
    }
    assert_fails(&installation.run(&["completions", "tcsh"]), &[2], "tcsh");
}
