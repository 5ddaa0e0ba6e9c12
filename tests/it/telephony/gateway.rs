//! A browser that calls by SIP through Janus from Debian, a WebRTC gateway with the user agent Sofia.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use dikala_testkit::free_port;

use super::{conversation::have, trunk, with_a_function};
use crate::support::{browser::Browser, prelude::*, tenant::text};

/// Registers as a guest, calls the URI, and keeps the events of the call in `told`.
const CALL: &str = "const [uri] = arguments;
    return (async () => {
    const ask = async (path, body) => {
        const sent = JSON.stringify({transaction: Math.random().toString(36).slice(2), ...body});
        return (await fetch('/janus' + path, {method: 'POST', body: sent})).json();
    };
    const session = '/' + (await ask('', {janus: 'create'})).data.id;
    const handle = session + '/' + (await ask(session, {janus: 'attach', plugin: 'janus.plugin.sip'})).data.id;
    const line = new RTCPeerConnection();
    window.line = line;
    // The energy of what is received counts once it is played.
    line.ontrack = event => Object.assign(new Audio(), {srcObject: event.streams[0]}).play();
    window.told = [];
    window.tell = (body, jsep) => ask(handle, {janus: 'message', body, ...(jsep && {jsep})});
    const listen = async () => {
        for (;;) {
            const event = await (await fetch('/janus' + session)).json();
            if (event.jsep) await line.setRemoteDescription(event.jsep);
            const result = event.plugindata?.data;
            if (result) window.told.push(result.result ?? result);
        }
    };
    listen();
    await tell({request: 'register', type: 'guest', username: 'sip:browser@127.0.0.1'});
    const microphone = await navigator.mediaDevices.getUserMedia({audio: true});
    line.addTrack(microphone.getAudioTracks()[0], microphone);
    await line.setLocalDescription(await line.createOffer());
    while (line.iceGatheringState !== 'complete') await new Promise(done => line.onicegatheringstatechange = done);
    await tell({request: 'call', uri}, {type: 'offer', sdp: line.localDescription.sdp});
    })()";
/// True once the agent was heard.
const HEARS: &str = "return line.getStats().then(reports =>
    [...reports.values()].some(report => report.type === 'inbound-rtp' && report.totalAudioEnergy > 0.001));";
/// Keys as telephone events, and the last one by INFO.
const PRESS: &str = "return (async () => {
    const sender = line.getSenders()[0].dtmf;
    sender.insertDTMF('427', 100, 100);
    await new Promise(done => sender.ontonechange = event => event.tone || done());
    await tell({request: 'dtmf_info', digit: '#'});
    })()";

/// Killed when dropped.
struct Janus {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Janus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Janus {
    fn start() -> Self {
        let folder = dikala_testkit::folder();
        let port = free_port();
        let files = [
            ("janus.jcfg", "nat: { }".to_owned()),
            (
                "janus.plugin.sip.jcfg",
                "general: { local_ip = \"127.0.0.1\" }".to_owned(),
            ),
            (
                "janus.transport.http.jcfg",
                format!("general: {{ http = true, port = {port}, ip = \"127.0.0.1\" }}"),
            ),
        ];
        for (name, content) in files {
            fs::write(folder.path().join(name), content).unwrap();
        }
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let child = Command::new("janus")
            .arg("--configs-folder")
            .arg(folder.path())
            // Its plugin for recordings makes a folder where it is.
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self {
            child,
            port,
            _folder: folder,
        }
    }
}

#[actix_web::test]
async fn a_browser_behind_a_gateway_is_served_as_a_phone_is() {
    if !have(&["janus"]) {
        return;
    }
    let Some(browser) = Browser::open("en").await else {
        return;
    };
    let Some(mut installation) = Installation::migrated(Sqlite) else {
        return;
    };
    let port = free_port();
    let file = trunk(&installation);
    for (key, value) in [
        ("config", file.as_str()),
        ("telephony.enabled", "true"),
        ("telephony.voice.provider", "scripted"),
        ("telephony.sip.listen", &format!("udp://127.0.0.1:{port}")),
    ] {
        installation.set(key, value);
    }
    let world = TestWorld::on(installation, WorldSetup::new().minutes(10)).await;
    with_a_function(&world).await;
    let janus = Janus::start();
    let page = format!("http://127.0.0.1:{}/janus/info", janus.port);
    eventually("janus", async || {
        let at = ("127.0.0.1", janus.port);
        tokio::net::TcpStream::connect(at).await.ok()
    })
    .await;
    browser.go(&page).await;
    let uri = format!("sip:{}@127.0.0.1:{port}", world.tenant.did);
    browser.run_with(CALL, json!([uri])).await;
    eventually("speech", async || {
        (browser.run(HEARS).await == json!(true)).then_some(())
    })
    .await;
    browser.run(PRESS).await;
    let order = world.receiver.wait_for("/order", 1).await;
    let asked: Value = serde_json::from_slice(&order[0].body).unwrap();
    assert!(asked.to_string().contains("\"427\""), "{asked}");
    let listed = world.tenant.calls().await;
    let call = world.tenant.call_over(&text(&listed[0], "id")).await;
    assert_eq!(
        (&call["status"], &call["hangupInitiator"]),
        (&json!("ended"), &json!("agent")),
        "{call}"
    );
    eventually("the end of the call at the browser", async || {
        let told = browser.run("return JSON.stringify(window.told)").await;
        told.as_str()?.contains("hangup").then_some(())
    })
    .await;
}
