//! The model's audio, and messages in pieces.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{
    Bytes, Message,
    protocol::frame::{
        Frame,
        coding::{Data, OpCode},
    },
};

use crate::sound;

/// Messages with this much of the model's voice: of the recording, or else of a tone.
pub(super) fn spoken(recording: Option<&[u8]>, milliseconds: u64, piece_ms: u64) -> Vec<Bytes> {
    if let Some(recording) = recording {
        let pieces = sound::recorded(recording, milliseconds, piece_ms);
        return pieces.iter().map(|piece| message(piece)).collect();
    }
    // Encoded once: nothing is read meanwhile, and encoding ten minutes takes seconds on a busy machine.
    let piece = message(&sound::tone(piece_ms));
    let count = usize::try_from(milliseconds / piece_ms).unwrap();
    let mut pieces = vec![piece; count];
    let rest = milliseconds % piece_ms;
    pieces.extend((rest > 0).then(|| message(&sound::tone(rest))));
    pieces
}

/// A message with this much silence.
pub(super) fn silent(milliseconds: u64) -> Bytes {
    message(&sound::silence(milliseconds))
}

fn message(data: &str) -> Bytes {
    let audio = json!({"mimeType": "audio/pcm;rate=24000", "data": data});
    let turn = json!({"parts": [{"inlineData": audio}]});
    let message = json!({"serverContent": {"modelTurn": turn}});
    message.to_string().into_bytes().into()
}

/// A message in frames of this size.
pub(super) fn fragments(message: &Value, bytes: usize) -> Vec<Message> {
    let text = message.to_string().into_bytes();
    let count = text.chunks(bytes).len();
    let frame = |(at, piece): (usize, &[u8])| {
        let kind = if at == 0 { Data::Text } else { Data::Continue };
        let frame = Frame::message(piece.to_vec(), OpCode::Data(kind), at + 1 == count);
        Message::Frame(frame)
    };
    text.chunks(bytes).enumerate().map(frame).collect()
}
