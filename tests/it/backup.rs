//! `dikala backup` while a server works on the database, and `dikala restore`.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use crate::support::{
    prelude::*,
    server::{assert_fails, installation},
};

/// Commits continuously until it is dropped.
struct Busy {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Busy {
    fn start(world: &TestWorld) -> Self {
        let (stop, done) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let (stopped, count) = (stop.clone(), done.clone());
        let (base, key) = (
            format!("{}/api/v1", world.server.http),
            world.tenant.key.clone(),
        );
        let thread = thread::spawn(move || {
            actix_web::rt::System::new().block_on(async {
                let api = Rest::new(&base).with("x-api-key", &key);
                while !stopped.load(Ordering::Relaxed) {
                    let sample = json!({"event": "call.ended"});
                    api.post("/events/sample", sample).await.expect(202);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        });
        Self {
            stop,
            done,
            thread: Some(thread),
        }
    }

    fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[actix_web::test]
async fn a_backup_under_load_is_whole_and_comes_back() {
    let mut world = world!(Sqlite);
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    bridge.hang_up(&call).await;
    world.event("call.ended", &call).await;
    let folder = world.server.installation.folder.path().to_owned();
    let file = folder.join("copy.db");
    let name = file.to_str().unwrap();

    let busy = Busy::start(&world);
    eventually("some commits", async || (busy.done() > 5).then_some(())).await;
    let before = busy.done();
    let made = world.server.cli(&["backup", name]);
    assert!(busy.done() > before, "commits went on");
    assert_eq!(made["file"], name);
    assert_eq!(made["bytes"], fs::metadata(&file).unwrap().len());
    assert_eq!(made.as_object().unwrap().len(), 2);
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(busy);
    let again = world.server.installation.run(&["backup", name]);
    assert_eq!(again.code, Some(6), "never over another: {again:?}");
    let left: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|file| file.starts_with("copy"))
        .collect();
    assert_eq!(left, ["copy.db"]);

    let later = world.tenant.create_agent(json!({"name": "Later"})).await;
    let installation = &world.server.installation;
    let served = installation.run(&["restore", name]);
    assert_eq!(served.code, Some(6), "{served:?}");
    assert!(served.stderr.contains("serves"), "{served:?}");
    world.server.terminate().await;
    let restored = world.server.cli(&["restore", name]);
    assert_eq!(restored["file"], folder.join("dikala.db").to_str().unwrap());
    let kept = fs::read_dir(&folder).unwrap().flatten();
    let kept = kept.filter(|file| {
        let name = file.file_name().into_string().unwrap();
        name.starts_with("dikala.db.before-restore-")
    });
    assert_eq!(kept.count(), 1, "what was replaced is kept");
    let mode = fs::metadata(folder.join("dikala.db"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);

    world.server.restart();
    assert_eq!(world.tenant.call(&call).await["hangupReason"], "normal");
    let agents = world
        .tenant
        .api
        .get("/agents")
        .await
        .expect(200)
        .to_string();
    assert!(!agents.contains(&later), "it was made after the copy");
    world.assert_ledger_is_exact();
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    bridge.hang_up(&call).await;
    world.event("call.ended", &call).await;
}

#[actix_web::test]
async fn what_is_no_whole_copy_does_not_come_back() {
    let mut installation = installation!(Sqlite);
    let folder = installation.folder.path().to_owned();
    installation.cli(&["tenant", "create", "--name", "Toko"]);
    let good = folder.join("good.db");
    installation.cli(&["backup", good.to_str().unwrap()]);
    let database = folder.join("dikala.db");

    let bytes = fs::read(&good).unwrap();
    let mut broken = bytes.clone();
    // Breaks the last page, which belongs to an index: everything that a start reads is intact.
    let last_page = broken.len() - 4_096;
    broken[last_page..].fill(0x5a);
    let half = bytes[..bytes.len() / 2 + 100].to_vec();
    for (name, content) in [
        ("broken.db", broken),
        ("half.db", half),
        ("text.db", b"not a database at all".to_vec()),
        ("empty.db", Vec::new()),
    ] {
        let file = folder.join(name);
        fs::write(&file, content).unwrap();
        let refused = installation.run(&["restore", file.to_str().unwrap()]);
        assert_eq!(refused.code, Some(6), "{name}: {refused:?}");
        assert!(refused.stderr.contains(name), "{refused:?}");
    }
    let missing = installation.run(&["restore", "nowhere.db"]);
    assert_eq!(missing.code, Some(5), "{missing:?}");
    let itself = installation.run(&["restore", database.to_str().unwrap()]);
    assert_eq!(itself.code, Some(6), "{itself:?}");
    let key = installation.settings.clone();
    installation.set(
        "secrets.key",
        "Fz9vAC5pYkBhfUzLzpNYgvEGbcNcTTYnUsX0T4mRJ+c=",
    );
    let locked = installation.run(&["restore", good.to_str().unwrap()]);
    assert_eq!(locked.code, Some(3), "its secrets do not open: {locked:?}");
    installation.set("secrets.key", "no key");
    let malformed = installation.run(&["restore", good.to_str().unwrap()]);
    assert_fails(&malformed, &[3], "secrets.key must be");
    installation.unset("secrets.key");
    let keyless = installation.run(&["restore", good.to_str().unwrap()]);
    assert_fails(&keyless, &[3], "holds secrets that do not open without");
    installation.settings = key;

    // None of these changed the database or left a file.
    let tenants = installation.cli(&["tenant", "list"]);
    assert_eq!(tenants["tenants"].as_array().unwrap().len(), 1);
    let left: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("restor") || name.contains("unfinished"))
        .collect();
    assert_eq!(left, [""; 0]);

    // A broken or missing database can be restored.
    fs::write(&database, b"overwritten by something").unwrap();
    installation.cli(&["restore", good.to_str().unwrap()]);
    let tenants = installation.cli(&["tenant", "list"]);
    assert_eq!(tenants["tenants"].as_array().unwrap().len(), 1);
    fs::remove_file(&database).unwrap();
    installation.cli(&["restore", good.to_str().unwrap()]);
    let tenants = installation.cli(&["tenant", "list"]);
    assert_eq!(tenants["tenants"].as_array().unwrap().len(), 1);

    // A backup without secrets can be restored without a key.
    let mut fresh = installation!(Sqlite);
    let empty = fresh.folder.path().join("copy.db");
    fresh.cli(&["backup", empty.to_str().unwrap()]);
    fresh.unset("secrets.key");
    fresh.cli(&["restore", empty.to_str().unwrap()]);
}

#[actix_web::test]
async fn postgresql_has_its_own_tools_and_is_told_of_them() {
    let installation = installation!(Postgres);
    for (command, tool) in [("backup", "pg_dump"), ("restore", "pg_restore")] {
        let refused = installation.run(&[command, "copy.dump"]);
        assert_eq!(refused.code, Some(6), "{refused:?}");
        assert!(refused.stderr.contains(tool), "{refused:?}");
        assert!(refused.stderr.contains("copy.dump"), "{refused:?}");
    }
}

#[actix_web::test]
async fn a_copy_that_another_process_is_making_is_left_to_it() {
    let installation = installation!(Sqlite);
    let folder = installation.folder.path().to_owned();
    installation.cli(&["tenant", "create", "--name", "Toko"]);
    let copy = folder.join("copy.db");
    let others = ["copy.db.unfinished", "copy.db.unfinished-1"].map(|name| folder.join(name));
    for other in &others {
        fs::write(other, b"half of a copy").unwrap();
    }
    installation.cli(&["backup", copy.to_str().unwrap()]);
    for other in &others {
        assert_eq!(fs::read(other).unwrap(), b"half of a copy");
    }
    let own = fs::read_dir(&folder).unwrap().flatten();
    let own = own.filter(|file| file.file_name().to_string_lossy().contains("unfinished"));
    assert_eq!(own.count(), others.len(), "its own is gone");
}
