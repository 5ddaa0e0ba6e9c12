//! The thoughts of a language model, between `<think>` and `</think>`, as servers of local models send them: they are for nobody.

const BEGIN: &str = "<think>";
const END: &str = "</think>";

/// Takes the thoughts out of a stream of text.
#[derive(Debug, Default)]
pub(super) struct ThoughtFilter {
    /// The end of the text so far, which may be the beginning of a mark.
    held: String,
    is_thinking: bool,
}

impl ThoughtFilter {
    /// Adds a piece, and returns the words that are for the caller.
    pub(super) fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let mut words = String::new();
        loop {
            let mark = if self.is_thinking { END } else { BEGIN };
            let found = self.held.find(mark);
            let until = found.unwrap_or(self.held.len() - begun(&self.held, mark));
            let passed: String = self.held.drain(..until).collect();
            if !self.is_thinking {
                words.push_str(&passed);
            }
            if found.is_none() {
                return words;
            }
            self.held.drain(..mark.len());
            self.is_thinking = !self.is_thinking;
        }
    }

    /// The text is complete: the words that were held back.
    pub(super) fn rest(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        if self.is_thinking {
            String::new()
        } else {
            held
        }
    }
}

/// The bytes at the end of the text that a mark may begin with.
fn begun(text: &str, mark: &str) -> usize {
    (1..mark.len())
        .rev()
        .find(|length| text.ends_with(&mark[..*length]))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(&["Halo."], "Halo.")]
    #[case(&["<think>Who is it?</think>Halo."], "Halo.")]
    #[case(&["<th", "ink>Who", " is it?</thi", "nk>", "\n\nHalo."], "\n\nHalo.")]
    #[case(&["2 <", " 3 <", "b> <thin"], "2 < 3 <b> <thin")]
    #[case(&["A<think>b</think>C<think>d"], "AC")]
    #[case(&["é<think>é</think>é<"], "éé<")]
    fn thoughts_are_left_out(#[case] pieces: &[&str], #[case] words: &str) {
        let mut filter = ThoughtFilter::default();
        let mut all: String = pieces.iter().map(|piece| filter.push(piece)).collect();
        all.push_str(&filter.rest());
        assert_eq!(all, words);
        let one_by_one: Vec<String> = pieces.concat().chars().map(String::from).collect();
        let mut filter = ThoughtFilter::default();
        let mut all: String = one_by_one.iter().map(|piece| filter.push(piece)).collect();
        all.push_str(&filter.rest());
        assert_eq!(all, words);
    }
}
