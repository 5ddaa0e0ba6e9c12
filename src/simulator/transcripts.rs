//! Generated conversations, in the agent's language.

use dikala_entities::Speaker;

/// The words of one language.
struct Words {
    greeting: &'static str,
    thanks: &'static str,
    /// Question, answer and summary of conversations without a function.
    talks: [(&'static str, &'static str, &'static str); 3],
    /// The same with a function that looks an order up, and with any other. Its name is added to the summary.
    order: (&'static str, &'static str, &'static str),
    function: (&'static str, &'static str, &'static str),
}

const INDONESIAN: Words = Words {
    greeting: "Halo, ada yang bisa dibantu?",
    thanks: "Baik, terima kasih.",
    talks: [
        (
            "Buka sampai jam berapa?",
            "Kami buka setiap hari sampai jam sembilan malam.",
            "Penelepon menanyakan jam buka dan mendapat jawabannya.",
        ),
        (
            "Ada susu oat?",
            "Ada, untuk semua minuman kopi.",
            "Penelepon menanyakan susu oat; tersedia.",
        ),
        (
            "Bagaimana jalan ke sana?",
            "Kami di seberang stasiun, di samping apotek.",
            "Penelepon menanyakan alamat dan mendapat petunjuk jalan.",
        ),
    ],
    order: (
        "Pesanan saya sudah sampai mana?",
        "Pesanan Anda sudah dalam perjalanan.",
        "Penelepon menanyakan pesanannya; agen memeriksanya dengan",
    ),
    function: (
        "Bisa tolong dicek dulu?",
        "Sudah saya cek, dan bisa.",
        "Penelepon bertanya, dan agen menjawab dengan",
    ),
};

const ENGLISH: Words = Words {
    greeting: "Hello, how can I help?",
    thanks: "All right, thank you.",
    talks: [
        (
            "Until when are you open?",
            "We are open every day until nine in the evening.",
            "The caller asked about opening hours and was told them.",
        ),
        (
            "Do you have oat milk?",
            "Yes, for every coffee.",
            "The caller asked for oat milk; there is some.",
        ),
        (
            "How do I get there?",
            "We are opposite the station, next to the pharmacy.",
            "The caller asked for the way and was told it.",
        ),
    ],
    order: (
        "Where is my order?",
        "It is on its way.",
        "The caller wanted to know where an order is; the agent looked it up with",
    ),
    function: (
        "Could you look something up?",
        "I have looked, and it is possible.",
        "The caller had a question that the agent answered with",
    ),
};

/// The words of a call, and its summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// Until the function is called, if one is.
    pub first: [(Speaker, &'static str); 2],
    pub second: [(Speaker, &'static str); 2],
    pub summary: String,
}

impl Conversation {
    /// A conversation in Indonesian (`id`) or English, about a topic, or with a call of this function.
    pub fn new(language: &str, topic: usize, function: Option<&str>) -> Self {
        let words = match language {
            "id" => &INDONESIAN,
            _ => &ENGLISH,
        };
        let (question, answer, summary) = match function {
            Some(name) if name.to_lowercase().contains("order") => words.order,
            Some(_) => words.function,
            None => words.talks[topic % words.talks.len()],
        };
        Self {
            first: [
                (Speaker::Agent, words.greeting),
                (Speaker::Caller, question),
            ],
            second: [(Speaker::Agent, answer), (Speaker::Caller, words.thanks)],
            summary: match function {
                Some(name) => format!("{summary} {name}."),
                None => summary.to_owned(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_in_the_agents_language_and_tells_of_the_function_that_was_called() {
        let of = |language, function| Conversation::new(language, 1, function);
        assert!(
            of("en", Some("check_order"))
                .summary
                .ends_with("an order is; the agent looked it up with check_order.")
        );
        assert!(
            of("id", Some("findTable"))
                .summary
                .ends_with("agen menjawab dengan findTable.")
        );
        assert_eq!(of("id", None).first[1].1, "Ada susu oat?");
        assert_eq!(of("ja", None).first[1].1, "Do you have oat milk?");
    }
}
