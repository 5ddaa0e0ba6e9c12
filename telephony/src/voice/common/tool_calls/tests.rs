//! Calls that a model repeats, cancels, makes without a pause, or names alike.

use std::time::Duration;

use serde_json::json;

use super::{
    AnswerTarget, RequestMeaning, RequestedCall, ToolCalls, ToolOutcome, ToolRequestFault,
};

fn call(id: &str, order: &str) -> RequestedCall {
    RequestedCall {
        id: Some(id.to_owned()),
        name: "check_order".to_owned(),
        arguments: serde_json::from_value(json!({"orderId": order})).unwrap(),
    }
}

fn outcome() -> ToolOutcome {
    ToolOutcome::success(json!({"minutes": 20}))
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn new(id: &str) -> RequestMeaning {
    RequestMeaning::New(id.to_owned())
}

#[test]
fn the_same_is_asked_for_once_over_connections() {
    let mut tools = ToolCalls::default();
    assert_eq!(tools.asked(call("a", "1"), 1, 1, at(0)), new("a"));
    assert!(tools.is_repeat(&call("a", "1"), 1));
    assert!(!tools.is_repeat(&call("a", "2"), 1));
    assert_eq!(
        tools.asked(call("b", "1"), 2, 1, at(1)),
        RequestMeaning::Again
    );
    assert_eq!(tools.asked(call("c", "2"), 2, 1, at(1)), new("c"));
    assert!(tools.answers(2).is_empty());
    assert!(tools.came("a", outcome(), at(2)));
    let answers = tools.answers(2);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].to, AnswerTarget::Here(Some("b".to_owned())));
    assert!(tools.answers(2).is_empty());
    // It is kept for the next connection, once for each.
    assert_eq!(
        tools.asked(call("d", "1"), 3, 1, at(3)),
        RequestMeaning::Again
    );
    assert_eq!(
        tools.answers(3)[0].to,
        AnswerTarget::Here(Some("d".to_owned()))
    );
    assert_eq!(tools.asked(call("e", "1"), 3, 1, at(4)), new("e"));
}

#[test]
fn an_id_of_another_call_is_no_repeat() {
    let mut tools = ToolCalls::default();
    assert_eq!(tools.asked(call("0", "1"), 1, 1, at(0)), new("0"));
    assert!(tools.came("0", outcome(), at(1)));
    tools.answers(1);
    let second = tools.asked(call("0", "2"), 1, 1, at(2));
    assert_eq!(second, new("function-2"));
    assert!(tools.came("function-2", outcome(), at(3)));
    let target = AnswerTarget::Here(Some("0".to_owned()));
    assert_eq!(tools.answers(1)[0].to, target);
}

#[test]
fn surplus_calls_are_refused_and_others_go_on() {
    let mut tools = ToolCalls::default();
    let mut request = |n: u32, now| {
        let (id, order) = (format!("f-{n}"), n.to_string());
        tools.request(call(&id, &order), 1, 1, now)
    };
    let all: Vec<_> = (0..64).map(|n| request(n, at(0))).collect();
    let carried_out = |event: &&_| matches!(event, Ok(Some(_)));
    assert_eq!(all.iter().filter(carried_out).count(), 32);
    assert!(all.iter().all(Result::is_ok), "the others are answered");
    assert_eq!(request(64, at(0)), Err(ToolRequestFault::TooMany));
    assert!(matches!(request(65, at(1)), Ok(Some(_))));
    let is_first_known = tools.came("f-0", outcome(), at(1));
    assert!(is_first_known, "calls under way are not forgotten");
    let answers = tools.answers(1);
    let texts: Vec<_> = answers.iter().map(|answer| answer.outcome.text()).collect();
    let refused = texts.iter().filter(|text| text.contains("too_many_calls"));
    assert_eq!((texts.len(), refused.count()), (32, 31));
}

#[test]
fn an_old_outcome_answers_nothing() {
    let mut tools = ToolCalls::default();
    tools.asked(call("a", "1"), 1, 1, at(0));
    tools.came("a", outcome(), at(1));
    assert_eq!(tools.asked(call("b", "1"), 2, 1, at(122)), new("b"));
}

#[test]
fn what_was_asked_earlier_is_told_all_the_same() {
    let mut tools = ToolCalls::default();
    tools.asked(call("a", "1"), 1, 1, at(0));
    tools.came("a", outcome(), at(1));
    let answers = tools.answers(2);
    let id = Some("a".to_owned());
    let expected = AnswerTarget::Earlier {
        id,
        session: 1,
        since: at(0),
    };
    assert_eq!(answers[0].to, expected);
}

#[test]
fn what_is_cancelled_is_not_answered_and_not_repeated() {
    let mut tools = ToolCalls::default();
    tools.asked(call("a", "1"), 1, 1, at(0));
    assert_eq!(tools.gated_until(1, at(1)), Some(at(10)));
    assert_eq!(tools.cancel(&["a".to_owned(), "x".to_owned()], 1), ["a"]);
    assert_eq!(tools.gated_until(1, at(1)), None);
    assert!(tools.came("a", outcome(), at(2)));
    assert!(tools.answers(1).is_empty());
    assert_eq!(
        tools.asked(call("b", "1"), 1, 1, at(3)),
        RequestMeaning::Again
    );
    assert_eq!(
        tools.answers(1)[0].to,
        AnswerTarget::Here(Some("b".to_owned()))
    );
}

#[test]
fn the_gate_opens_by_itself_and_with_the_connection() {
    let mut tools = ToolCalls::default();
    tools.asked(call("a", "1"), 1, 1, at(0));
    assert_eq!(tools.gated_until(1, at(10)), None);
    assert_eq!(tools.gated_until(2, at(1)), None);
    tools.came("a", outcome(), at(1));
    tools.answers(1);
    assert_eq!(tools.gated_until(1, at(1)), None);
}

#[test]
fn ids_fit_the_service_and_are_the_only_ones() {
    let mut tools = ToolCalls::default();
    let long = "x".repeat(65);
    assert_eq!(
        tools.asked(call(&long, "1"), 1, 1, at(0)),
        new("function-1")
    );
    assert_eq!(tools.asked(call("", "2"), 1, 1, at(0)), new("function-2"));
    assert_eq!(tools.asked(call("", "3"), 1, 1, at(0)), new("function-3"));
    assert_eq!(tools.asked(call("a", "4"), 1, 1, at(0)), new("a"));
    assert_eq!(tools.asked(call("a", "5"), 2, 1, at(0)), new("function-5"));
}

#[test]
fn a_flood_is_bounded() {
    let mut tools = ToolCalls::default();
    for number in 0..5_000 {
        tools.asked(call(&number.to_string(), &number.to_string()), 1, 1, at(0));
    }
    assert!(tools.asks.len() <= super::MOST && tools.ids.len() <= super::IDS_MOST);
}
