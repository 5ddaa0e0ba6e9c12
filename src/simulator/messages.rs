//! JSON messages of a simulated bridge, and generated transcripts.

use dikala_entities::PhoneNumber;
use serde_json::{Value, json};

use super::call::Say;

/// Question and summary of conversations without a function.
const TALKS: [(&str, &str); 3] = [
    (
        "Until when are you open?",
        "The caller asked about opening hours and was told them.",
    ),
    (
        "Do you have oat milk?",
        "The caller asked for oat milk; there is some.",
    ),
    (
        "How do I get there?",
        "The caller asked for the way and was told it.",
    ),
];

/// `call.incoming`
pub fn incoming(id: &str, bridge_call_id: &str, did: &PhoneNumber, caller: &str) -> String {
    let message = json!({
        "id": id, "type": "call.incoming", "bridgeCallId": bridge_call_id, "did": did, "callerNumber": caller,
        "metadata": {"simulated": true},
    });
    message.to_string()
}

/// A message about a call with an id. `invocation` is the invocation's id; a retry repeats it.
pub fn about_call(id: &str, call_id: &str, invocation: &str, say: &Say) -> String {
    let message = match say {
        Say::Answered => json!({"id": id, "type": "call.answered", "callId": call_id}),
        Say::Ask { name, parameters } => json!({
            "id": id, "type": "call.function", "callId": call_id, "invocationId": invocation, "name": name,
            "parameters": parameters,
        }),
        Say::Transcript { topic, asked } => transcript(id, call_id, *topic, asked.as_deref()),
        Say::HangUp { reason, initiator } => json!({
            "id": id, "type": "call.hangup", "callId": call_id, "reason": reason, "initiator": initiator,
        }),
    };
    message.to_string()
}

/// A transcript that mentions the invoked function, if there was one.
fn transcript(id: &str, call_id: &str, topic: usize, asked: Option<&str>) -> Value {
    let (question, summary) = match asked {
        Some(name) if name.contains("order") => (
            "Where is my order?",
            format!(
                "The caller wanted to know where an order is; the agent looked it up with {name}."
            ),
        ),
        Some(name) => (
            "Could you look something up?",
            format!("The caller had a question that the agent answered with {name}."),
        ),
        None => {
            let (question, summary) = TALKS[topic % TALKS.len()];
            (question, summary.to_owned())
        }
    };
    let mut turns = vec![
        json!({"role": "agent", "text": "Hello, how can I help?"}),
        json!({"role": "caller", "text": question}),
    ];
    turns.extend(asked.map(|name| json!({"role": "tool", "text": name})));
    turns.push(json!({"role": "agent", "text": "Here is what I know. Have a nice day!"}));
    json!({"id": id, "type": "call.transcript", "callId": call_id, "summary": summary, "turns": turns})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_tells_of_the_function_that_was_called_and_of_no_other() {
        let of = |asked: Option<&str>, topic| {
            let asked = asked.map(str::to_owned);
            about_call("m", "call", "i", &Say::Transcript { topic, asked })
        };
        assert!(of(Some("check_order"), 0).contains("an order"));
        assert!(of(Some("findTable"), 0).contains("findTable"));
        for topic in 0..10 {
            let text = of(None, topic);
            assert!(!text.contains("order") && !text.contains("tool"), "{text}");
        }
    }
}
