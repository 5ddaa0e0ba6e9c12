//! Generated transcripts.

use dikala_entities::Speaker;
use dikala_protocol::{CallReport, SpokenTurn};

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

/// A transcript that mentions the invoked function, if there was one.
pub fn transcript(topic: usize, asked: Option<&str>) -> CallReport {
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
        turn(Speaker::Agent, "Hello, how can I help?"),
        turn(Speaker::Caller, question),
    ];
    turns.extend(asked.map(|name| turn(Speaker::Tool, name)));
    turns.push(turn(
        Speaker::Agent,
        "Here is what I know. Have a nice day!",
    ));
    CallReport::Transcript { summary, turns }
}

fn turn(role: Speaker, text: &str) -> SpokenTurn {
    SpokenTurn::new(role, text.to_owned(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_tells_of_the_function_that_was_called_and_of_no_other() {
        let of = |asked: Option<&str>, topic| {
            serde_json::to_string(&transcript(topic, asked)).expect("a text")
        };
        assert!(of(Some("check_order"), 0).contains("an order"));
        assert!(of(Some("findTable"), 0).contains("findTable"));
        for topic in 0..10 {
            let text = of(None, topic);
            assert!(!text.contains("order") && !text.contains("tool"), "{text}");
        }
    }
}
