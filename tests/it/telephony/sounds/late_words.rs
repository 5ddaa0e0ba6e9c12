//! Words of the caller that are transcribed late.

use super::*;

/// OpenAI transcribes the caller while it answers.
#[actix_web::test]
async fn words_that_come_after_the_answer_stand_before_it() {
    if !have(&["espeak-ng", "sox"]) {
        return;
    }
    let server = FakeOpenAi::start();
    server.speaks(&SOUNDS.agent);
    let (greeting, answer) = (GREETING.to_owned(), REST.to_owned());
    server.answer([
        RealtimeReaction::Say {
            text: greeting,
            milliseconds: length_ms(GREETING),
        },
        RealtimeReaction::WordsFirst {
            text: answer,
            milliseconds: length_ms(REST),
        },
    ]);
    let model = Model::OpenAi(server);
    let Some((world, edge)) = world(&model).await else {
        return;
    };
    let agent = json!({"greetingText": GREETING, "language": "id"});
    world.tenant.change_agent(agent).await;
    let mut call = CallWithSound::ring(&world, edge, Beside::Caller).await;
    call.is_greeted().await;
    call.from = call.phone.audio.packets();
    call.phone.audio.say(&SOUNDS.caller);
    call.hears(|it| it.packets + NEAR >= packets(REST)).await;
    call.phone.hang_up().await;
    let turns = call.turns(&world).await;
    let said: Vec<&str> = turns.iter().map(|(role, ..)| &**role).collect();
    assert_eq!(said, ["agent", "caller", "agent"], "{turns:?}");
    assert_eq!(model.broken_rules(), Vec::<String>::new());
}
