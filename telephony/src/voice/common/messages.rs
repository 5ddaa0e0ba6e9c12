//! How messages of a model are read, which is not trusted.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};

/// Limit for objects, lists and elements in one message. In memory each takes far more than its few bytes of text. The longest
/// legitimate message is speech, which is one string.
const PIECES_MOST: usize = 10_000;

/// Parses a message. `None` if it does not fit, or has more elements than any legitimate message.
pub(in crate::voice) fn read_message<M: DeserializeOwned>(bytes: &[u8]) -> Option<M> {
    let pieces = bytes
        .iter()
        .filter(|byte| matches!(byte, b',' | b'{' | b'['));
    if pieces.count() > PIECES_MOST {
        return None;
    }
    serde_json::from_slice(bytes).ok()
}

/// For `deserialize_with`: null is the same as an absent field.
pub(in crate::voice) fn null_is_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
