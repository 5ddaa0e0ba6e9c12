//! Tests of the drawing, on an in-memory terminal.

use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers},
};
use serde_json::{Value, json};

use super::{TopReading, view::TopView};

const PLACE: &str = "http://127.0.0.1:8081";

fn actor(kind: &str, mailbox: u64, p99: u64) -> Value {
    let message = json!({
        "message": "Post", "mailbox": mailbox, "mailboxHighest": 9, "handled": 100, "errors": 3, "lost": 0,
        "waitUs": {"p50": 10, "p99": p99}, "handlingUs": {"p50": 5, "p99": 50}
    });
    json!({
        "type": kind, "instances": 1, "mailbox": mailbox, "mailboxHighest": 9, "handled": 100, "errors": 3, "lost": 0, "restarts": 0,
        "messagesPerSecond": 12.5, "mailboxCapacity": 4096, "messages": [message]
    })
}

fn look(problems: &Value) -> TopReading {
    let figure = |name: &str, label: &str, unit: &str, value: Value, limit: Value| json!({"name": name, "label": label, "unit": unit, "value": value, "limit": limit, "history": [null, 1, 8, 4]});
    let document = json!({
        "overview": {
            "node": "main", "version": "0.1.0", "at": "2026-01-15T03:30:00.000Z", "startedAt": "2026-01-15T03:00:00.000Z",
            "status": "critical", "problems": problems, "historyStepSeconds": 10,
            "figures": [
                figure("calls_now", "Calls now", "calls", json!(12), json!(40)),
                figure("calls_per_second", "Calls", "per second", json!(0.5), Value::Null),
                figure("ack_p99", "Acknowledged within, p99", "ms", Value::Null, json!(100)),
            ],
        },
        "actors": [actor("call", 1, 25_000), actor("credit_ledger", 7, 250), actor("call_registry", 0, 900)],
        "eventLoops": [{"name": "core-0", "lagUs": 1_100}, {"name": "calls-0", "lagUs": 2_500}],
    });
    TopReading::read(&document).expect("as the listener has it")
}

fn problem() -> Value {
    json!([{
        "severity": "critical", "code": "store_not_writing", "summary": "The database takes no writes.",
        "action": "Look whether its disk is full.", "tenantId": null, "target": "credit_ledger"
    }])
}

/// The lines of a terminal of that size.
fn drawn(view: &mut TopView, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| view.draw(frame)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let line = |y| -> String { (0..width).map(|x| buffer[(x, y)].symbol()).collect() };
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

fn press(view: &mut TopView, code: KeyCode) -> bool {
    view.press(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

/// The first word of each actor's row.
fn order(lines: &[String]) -> Vec<&str> {
    let head = lines.iter().position(|line| line.starts_with("actor "));
    let rows = lines[head.expect("a table") + 1..].iter();
    let rows = rows.take_while(|line| !line.is_empty() && !line.starts_with("event loops"));
    rows.filter_map(|line| line.split_whitespace().next())
        .collect()
}

#[test]
fn all_of_it_is_drawn() {
    let mut view = TopView::new(PLACE);
    view.seen(look(&problem()));
    let lines = drawn(&mut view, 130, 15);
    let expected = "\
dikala top  http://127.0.0.1:8081  main 0.1.0, up 30 min
✗ The database takes no writes. (credit_ledger) Look whether its disk is full.
Calls now                     12  of 40       ▁█▄
Calls                     0.5 /s              ▁█▄
Acknowledged within, p99       –  of 100 ms   ▁█▄
actor          mailbox  per s  wait p99  handling p99  instances  highest  errors  lost  restarts  wait p50  handling p50
call                 1   12.5     25 ms         50 µs          1        9       3     0         0     10 µs          5 µs
call_registry        0   12.5    900 µs         50 µs          1        9       3     0         0     10 µs          5 µs
credit_ledger        7   12.5    250 µs         50 µs          1        9       3     0         0     10 µs          5 µs




event loops late by: calls-0 2.5 ms, core-0 1.1 ms
q ends  ←→ sort (most wait p99)  r reverse  ↑↓ scroll  m messages";
    assert_eq!(lines.join("\n").trim_end(), expected);
}

#[test]
fn keys_sort_scroll_and_end() {
    let mut view = TopView::new(PLACE);
    view.seen(look(&json!([])));
    let lines = drawn(&mut view, 130, 20);
    assert!(lines[1].contains("Nothing is wrong"), "{lines:#?}");
    for (code, expected) in [
        (KeyCode::Left, ["call", "call_registry", "credit_ledger"]),
        (KeyCode::Left, ["credit_ledger", "call", "call_registry"]),
        (
            KeyCode::Char('r'),
            ["call_registry", "call", "credit_ledger"],
        ),
    ] {
        assert!(press(&mut view, code));
        assert_eq!(order(&drawn(&mut view, 130, 20)), expected, "{code:?}");
    }
    press(&mut view, KeyCode::Down);
    assert_eq!(order(&drawn(&mut view, 130, 20)), ["call", "credit_ledger"]);
    // Scrolling stops at the last row, so that one key scrolls back.
    for _ in 0..50 {
        press(&mut view, KeyCode::PageDown);
    }
    assert_eq!(order(&drawn(&mut view, 130, 20)), ["credit_ledger"]);
    press(&mut view, KeyCode::Up);
    assert_eq!(order(&drawn(&mut view, 130, 20)).len(), 2);
    press(&mut view, KeyCode::Char('m'));
    let lines = drawn(&mut view, 130, 20);
    assert!(
        lines.iter().any(|line| line.starts_with("call Post ")),
        "{lines:#?}"
    );
    assert!(!press(&mut view, KeyCode::Char('q')));
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert!(!view.press(&Event::Key(interrupt)));
}

#[test]
fn a_listener_that_is_away_is_told_above_what_was_seen_last() {
    let mut view = TopView::new(PLACE);
    assert!(drawn(&mut view, 80, 10)[1].contains('…'));
    view.missed(
        "nothing answers at http://127.0.0.1:8081 (connection refused)",
        0,
    );
    let lines = drawn(&mut view, 80, 10).join("\n");
    assert!(
        lines.contains("connection refused") && !lines.contains("was so at"),
        "{lines}"
    );
    view.seen(look(&json!([])));
    view.missed("nothing answers", 12);
    let lines = drawn(&mut view, 100, 20).join("\n");
    assert!(
        lines.contains(
            "✗ nothing answers for 12 s; what is shown was so at 2026-01-15T03:30:00.000Z"
        ),
        "{lines}"
    );
    assert!(
        lines.contains("credit_ledger") && !lines.contains("Nothing is wrong"),
        "{lines}"
    );
    view.seen(look(&json!([])));
    let lines = drawn(&mut view, 100, 20).join("\n");
    assert!(
        lines.contains("Nothing is wrong") && !lines.contains("nothing answers"),
        "{lines}"
    );
}

#[test]
fn a_small_terminal_shows_what_matters_and_no_size_is_too_small() {
    let mut view = TopView::new(PLACE);
    view.seen(look(&problem()));
    let lines = drawn(&mut view, 40, 14);
    let head = lines.iter().find(|line| line.starts_with("actor"));
    assert_eq!(
        head.map(|head| head.trim_end()),
        Some("actor          mailbox  per s  wait p99")
    );
    assert!(lines.join(" ").contains("takes no writes"), "{lines:#?}");
    for width in 0..30 {
        for height in 0..30 {
            drawn(&mut view, width, height);
        }
    }
}
