//! The conversation so far, for a fresh session.

use std::collections::VecDeque;

use dikala_entities::Speaker;

/// Characters that are kept; the oldest turns are dropped first.
const MOST: usize = 12_000;
/// Turns that are kept, with words or without.
const TURNS_MOST: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::voice) enum Role {
    Caller,
    Agent,
    /// A function and its outcome.
    Tool,
}

#[derive(Debug)]
struct Turn {
    role: Role,
    /// The model's own id of it, if the model has any.
    id: Option<String>,
    text: String,
}

#[derive(Debug, Default)]
pub(in crate::voice) struct ConversationRecord {
    turns: VecDeque<Turn>,
    length: usize,
    /// The agent's turn is not over: the caller's pieces that come now belong before it.
    answering: bool,
}

impl From<&[(Speaker, String)]> for ConversationRecord {
    fn from(turns: &[(Speaker, String)]) -> Self {
        let mut record = Self::default();
        for (speaker, text) in turns {
            record.turn_over();
            let role = match speaker {
                Speaker::Caller => Role::Caller,
                Speaker::Agent => Role::Agent,
                Speaker::Tool => Role::Tool,
            };
            record.add(role, text);
        }
        record.turn_over();
        record
    }
}

impl ConversationRecord {
    /// The caller's last turn; empty if there is none.
    pub(in crate::voice) fn last_of_caller(&self) -> &str {
        let mut turns = self.turns.iter().rev();
        let last = turns.find(|turn| turn.role == Role::Caller);
        last.map_or("", |turn| turn.text.trim())
    }

    /// Appends a piece to its turn.
    pub(in crate::voice) fn add(&mut self, role: Role, piece: &str) {
        let of = match (role, self.turns.len()) {
            (Role::Caller, length) if self.answering && length >= 2 => length - 2,
            (_, length) => length.saturating_sub(1),
        };
        self.answering |= role == Role::Agent;
        self.length += piece.len();
        match self.turns.get_mut(of) {
            Some(turn) if turn.role == role && role != Role::Tool => turn.text.push_str(piece),
            _ => self.turns.push_back(Turn {
                role,
                id: None,
                text: piece.to_owned(),
            }),
        }
        self.forget_oldest();
    }

    /// A turn with this id begins here; its words may come later.
    pub(in crate::voice) fn begin(&mut self, role: Role, id: &str) {
        if self.find(id).is_none() {
            self.turns.push_back(Turn {
                role,
                id: Some(id.to_owned()),
                text: String::new(),
            });
            self.forget_oldest();
        }
    }

    /// Appends a piece to the turn with this id.
    pub(in crate::voice) fn add_to(&mut self, role: Role, id: &str, piece: &str) {
        self.begin(role, id);
        if let Some(turn) = self.find(id) {
            turn.text.push_str(piece);
            self.length += piece.len();
        }
        self.forget_oldest();
    }

    /// Cuts a turn of which only the part `heard` of `all` was heard.
    pub(in crate::voice) fn keep(&mut self, id: &str, heard: u64, all: u64) {
        let Some(turn) = self.find(id) else {
            return;
        };
        let before = turn.text.len();
        let kept = before as u128 * u128::from(heard) / u128::from(all.max(1));
        let kept = usize::try_from(kept).unwrap_or(before).min(before);
        turn.text.truncate(turn.text.floor_char_boundary(kept));
        let cut = before - turn.text.len();
        self.length -= cut;
    }

    /// Removes a turn that was not heard.
    pub(in crate::voice) fn remove(&mut self, id: &str) {
        let at = self
            .turns
            .iter()
            .position(|it| it.id.as_deref() == Some(id));
        let turn = at.and_then(|at| self.turns.remove(at));
        self.length -= turn.map_or(0, |turn| turn.text.len());
    }

    fn find(&mut self, id: &str) -> Option<&mut Turn> {
        let newest = self.turns.iter_mut().rev();
        newest
            .into_iter()
            .find(|turn| turn.id.as_deref() == Some(id))
    }

    fn forget_oldest(&mut self) {
        while (self.length > MOST || self.turns.len() > TURNS_MOST) && self.turns.len() > 1 {
            let oldest = self.turns.pop_front();
            self.length -= oldest.map_or(0, |turn| turn.text.len());
        }
        if self.length > MOST
            && let Some(only) = self.turns.front_mut()
        {
            let beyond = only.text.floor_char_boundary(self.length - MOST / 2);
            only.text.drain(..beyond);
            self.length = only.text.len();
        }
    }

    /// The agent's turn has ended, or was interrupted.
    pub(in crate::voice) fn turn_over(&mut self) {
        self.answering = false;
    }

    /// The turns, oldest first. What a function answered stands in square brackets, like all words of the telephone system.
    pub(in crate::voice) fn turns(&self) -> Vec<(Role, String)> {
        let turns = self.turns_with_ids();
        turns.map(|(_, role, text)| (role, text)).collect()
    }

    /// The same with the ids of the turns.
    pub(in crate::voice) fn turns_with_ids(
        &self,
    ) -> impl Iterator<Item = (Option<&str>, Role, String)> {
        self.turns.iter().map(|each| {
            let said = match each.role {
                Role::Caller | Role::Agent => each.text.trim().to_owned(),
                Role::Tool => format!("[{}]", each.text),
            };
            (each.id.as_deref(), each.role, said)
        })
    }

    /// A record with a line per turn.
    pub(in crate::voice) fn record(&self) -> String {
        let line = |each: &Turn| {
            let who = match each.role {
                Role::Caller => "Caller",
                Role::Agent => "You",
                Role::Tool => "Telephone system",
            };
            format!("{who}: {}\n", each.text.trim())
        };
        self.turns.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{ConversationRecord, MOST, Role};

    #[test]
    fn pieces_become_turns_and_late_ones_find_theirs() {
        let mut transcript = ConversationRecord::default();
        transcript.add(Role::Agent, "Halo!");
        transcript.turn_over();
        transcript.add(Role::Caller, "Where is");
        transcript.add(Role::Agent, "It comes");
        transcript.add(Role::Caller, " my order?");
        transcript.add(Role::Agent, " soon.");
        transcript.turn_over();
        transcript.add(Role::Tool, "f() answered.");
        transcript.add(Role::Caller, "Thanks");
        assert_eq!(
            transcript.record(),
            "You: Halo!\nCaller: Where is my order?\nYou: It comes soon.\nTelephone system: f() answered.\nCaller: Thanks\n"
        );
        let turns = transcript.turns();
        assert_eq!(turns[1], (Role::Caller, "Where is my order?".to_owned()));
        assert_eq!(turns[3], (Role::Tool, "[f() answered.]".to_owned()));
    }

    #[test]
    fn words_find_the_turn_of_their_id() {
        let mut record = ConversationRecord::default();
        record.add_to(Role::Agent, "a", "Halo!");
        record.begin(Role::Caller, "b");
        record.add_to(Role::Agent, "c", "It comes in twenty minutes.");
        record.add_to(Role::Caller, "b", "Where is my order?");
        record.begin(Role::Caller, "b");
        assert_eq!(
            record.record(),
            "You: Halo!\nCaller: Where is my order?\nYou: It comes in twenty minutes.\n"
        );
        record.keep("c", 300, 1_000);
        record.keep("unknown", 300, 1_000);
        record.remove("a");
        record.remove("a");
        assert_eq!(
            record.record(),
            "Caller: Where is my order?\nYou: It comes\n"
        );
        for (heard, all) in [(0, 0), (5, 0), (u64::MAX, 1), (0, 7)] {
            record.keep("c", heard, all);
        }
        assert_eq!(record.turns().last().unwrap().1, "");
    }

    #[test]
    fn turns_without_words_are_bounded() {
        let mut record = ConversationRecord::default();
        for number in 0..10_000 {
            record.begin(Role::Caller, &number.to_string());
        }
        assert!(record.turns().len() <= super::TURNS_MOST);
    }

    #[test]
    fn it_is_bounded() {
        let mut transcript = ConversationRecord::default();
        for number in 0..10_000 {
            transcript.add(Role::Caller, &format!("word {number} "));
            transcript.add(Role::Agent, "yes");
            transcript.turn_over();
        }
        let record = transcript.record();
        assert!(record.len() < MOST * 3, "{}", record.len());
        assert!(record.contains("word 9999") && !record.contains("word 1 "));
    }

    #[test]
    fn one_endless_turn_is_bounded() {
        let mut transcript = ConversationRecord::default();
        for _ in 0..10_000 {
            transcript.add(Role::Agent, "and so on ");
        }
        assert!(transcript.record().len() < MOST + 100);
    }
}
