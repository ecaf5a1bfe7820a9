//! The store with its background threads, and with them held still.

use super::*;
use formant_methods::Zoo;
use formant_numerics::Model;
use std::fs;
use std::sync::Arc;

/// Bytes of a state of [`state`]: a length and 100 floats, and a length without any.
const STATE: u64 = 403;
/// What it takes on disk.
const SLOT: u64 = 4096;

fn ditto() -> Arc<dyn ErasedMethod> {
    Zoo::standard().build("ditto", &toml::Table::new()).unwrap().method
}

/// A personal model that is all one number.
fn state(method: &dyn ErasedMethod, number: f32) -> Value {
    let state = method.start_client(&Model { parameters: vec![number; 100], buffers: Vec::new() });
    assert_eq!(state.encoded_len().unwrap() as u64, STATE);
    state
}

fn number(state: &Value) -> f32 {
    let model: Model = postcard::from_bytes(&state.encode().unwrap()).unwrap();
    model.parameters[99]
}

struct Bench {
    folder: tempfile::TempDir,
    method: Arc<dyn ErasedMethod>,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), method: ditto() }
    }

    fn store(&self, limit: u64) -> Arc<ClientStore<'_>> {
        let room = Arc::new(Room::new(limit));
        Arc::new(ClientStore::new(self.folder.path(), room, &*self.method))
    }

    /// A store with room for nothing and with the states `0.0, 1.0, ..` on disk.
    fn store_with(&self, clients: usize) -> Arc<ClientStore<'_>> {
        let store = self.store(0);
        for client in 0..clients {
            self.train(&store, client, client as f32);
            write_one(&store);
        }
        store
    }

    /// Takes a state and gives it back as another one.
    fn train(&self, store: &ClientStore<'_>, client: usize, number: f32) {
        store.take(client, || state(&*self.method, -1.0)).unwrap();
        store.give_back(client, state(&*self.method, number), true).unwrap();
    }

    fn shared(&self) -> std::path::PathBuf {
        self.folder.path().join("values.bin")
    }

    /// Bytes from the beginning of the shared file to the end of the last value.
    fn length(&self) -> u64 {
        fs::metadata(self.shared()).unwrap().len()
    }
}

/// What the writer does when it wakes.
fn write_one(store: &ClientStore<'_>) -> bool {
    let job = store.lock().begin_writing();
    job.map(|job| store.finish_writing(job)).is_some()
}

/// What the reader does when it wakes.
fn read_one(store: &ClientStore<'_>) -> bool {
    let next = store.lock().begin_reading();
    next.map(|(client, stored)| store.finish_reading(client, stored, &mut Vec::new())).is_some()
}

fn take(store: &ClientStore<'_>, client: usize) -> Value {
    store.take(client, || panic!("client {client} has a state")).unwrap()
}

#[test]
fn a_state_that_is_asked_for_before_it_is_written_comes_from_the_queue() {
    let bench = Bench::new();
    let store = bench.store(0);
    bench.train(&store, 0, 7.0);
    let state = take(&store, 0);
    assert_eq!((number(&state), store.lock().writing.used), (7.0, 0));
    // Its place in the queue is void, also when it comes back and waits anew.
    store.give_back(0, state, true).unwrap();
    assert_eq!(store.lock().queue, [0, 0]);
    assert!(write_one(&store));
    assert!(!write_one(&store));
    assert_eq!(bench.length(), STATE);
    assert_eq!(number(&take(&store, 0)), 7.0);
}

#[test]
fn a_state_that_is_being_written_is_waited_for() {
    let bench = Bench::new();
    let store = bench.store(0);
    bench.train(&store, 0, 7.0);
    let job = store.lock().begin_writing().unwrap();
    std::thread::scope(|scope| {
        let taken = scope.spawn(|| number(&take(&store, 0)));
        store.finish_writing(job);
        assert_eq!(taken.join().unwrap(), 7.0);
    });
}

#[test]
fn a_state_that_is_being_read_is_waited_for() {
    let bench = Bench::new();
    let store = bench.store_with(1);
    let _ahead = store.read_ahead(&[0]);
    let (client, stored) = store.lock().begin_reading().unwrap();
    std::thread::scope(|scope| {
        let taken = scope.spawn(|| number(&take(&store, 0)));
        store.finish_reading(client, stored, &mut Vec::new());
        assert_eq!(taken.join().unwrap(), 0.0);
    });
}

#[test]
fn a_failed_write_is_told_to_everybody_who_asks_and_names_the_file() {
    let bench = Bench::new();
    let store = bench.store(0);
    bench.train(&store, 3, 7.0);
    fs::remove_dir(bench.folder.path()).unwrap();
    assert!(write_one(&store));
    for _ in 0..2 {
        let asked = [
            store.take(3, || panic!("it has a state")).map(drop),
            store.take(4, || panic!("nobody trains on")).map(drop),
            store.persist(5).map(drop),
        ];
        for answer in asked {
            let error = answer.unwrap_err().to_string();
            assert!(error.contains("cannot write") && error.contains("values.bin"), "{error}");
            assert!(error.contains("\nhint: "), "{error}");
        }
    }
    fs::create_dir(bench.folder.path()).unwrap();
}

#[test]
fn a_failed_read_is_told_and_names_the_file() {
    let bench = Bench::new();
    let store = bench.store_with(2);
    let mut bytes = fs::read(bench.shared()).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(bench.shared(), bytes).unwrap();
    let ahead = store.read_ahead(&[0, 1]);
    while read_one(&store) {
        let _ = store.take(0, || panic!("it has a state"));
    }
    let error = store.take(1, || panic!("it has a state")).unwrap_err().to_string();
    assert!(error.contains("values.bin is damaged: 403 bytes at 4096 do"), "{error}");
    drop(ahead);
}

#[test]
fn what_was_read_for_nothing_goes_back_to_disk() {
    let bench = Bench::new();
    let store = bench.store_with(3);
    let ahead = store.read_ahead(&[2, 1]);
    assert!(read_one(&store));
    assert!(matches!(store.lock().states[&2], Place::Ahead(..)));
    drop(ahead);
    let inner = store.lock();
    assert!(inner.states.values().all(|place| matches!(place, Place::Disk(_))));
    assert_eq!((inner.ahead.used, inner.expected.len()), (0, 0));
    drop(inner);
    assert!(!read_one(&store));
    assert_eq!(number(&take(&store, 2)), 2.0);
}

#[test]
fn a_state_that_was_read_ahead_and_only_looked_at_is_not_written_again() {
    let bench = Bench::new();
    let store = bench.store_with(1);
    let _ahead = store.read_ahead(&[0]);
    assert!(read_one(&store));
    let state = take(&store, 0);
    store.give_back(0, state, false).unwrap();
    assert!(!write_one(&store));
    assert!(matches!(store.lock().states[&0], Place::Disk(Stored { offset: 0, .. })));
}

#[test]
fn queues_hold_no_more_than_they_may() {
    let (clients, room) = (50, 4);
    let bench = Bench::new();
    // The limit is the queues' too; the first states that come fill it.
    let store = bench.store(room * STATE);
    std::thread::scope(|scope| {
        let _background = store.in_background(scope);
        for round in 0..3 {
            let order: Vec<usize> = (0..clients).collect();
            let ahead = store.read_ahead(&order);
            for client in order {
                let before = store.take(client, || state(&*bench.method, 0.0)).unwrap();
                assert_eq!(number(&before), round as f32);
                store.give_back(client, state(&*bench.method, round as f32 + 1.0), true).unwrap();
                assert!(store.room.used().0 <= room * STATE);
            }
            drop(ahead);
        }
        let named = store.persist(clients).unwrap();
        assert!(named.iter().all(Option::is_some));
    });
    let inner = store.lock();
    assert!(inner.writing.peak > 0 && inner.writing.peak <= room * STATE, "{:?}", inner.writing);
    assert!(inner.ahead.peak <= room * STATE, "{:?}", inner.ahead);
    assert_eq!((inner.writing.used, inner.ahead.used), (0, 0));
}

#[test]
fn a_value_larger_than_a_queue_passes_alone() {
    let bench = Bench::new();
    let store = bench.store(0);
    std::thread::scope(|scope| {
        let _background = store.in_background(scope);
        for client in 0..10 {
            bench.train(&store, client, client as f32);
        }
        store.persist(10).unwrap();
    });
    assert_eq!(store.lock().writing.peak, STATE);
    for client in 0..10 {
        assert_eq!(number(&take(&store, client)), client as f32);
    }
}

#[test]
fn a_store_that_goes_gives_its_room_back() {
    let bench = Bench::new();
    let store = bench.store(2 * STATE);
    let room = store.room.clone();
    for client in 0..2 {
        store.take(client, || state(&*bench.method, 0.0)).unwrap();
        store.give_back(client, state(&*bench.method, 1.0), true).unwrap();
    }
    assert_eq!(room.used().0, 2 * STATE);
    drop(store);
    assert_eq!(room.used(), (0, 0));
}

#[test]
fn uploads_beyond_their_room_wait_on_disk() {
    let bench = Bench::new();
    let store = bench.store(2 * STATE);
    for client in 0..4 {
        store.early.put(Sender { client, round: 1 }, upload(&*bench.method, client)).unwrap();
    }
    assert_eq!(bench.length(), SLOT + STATE);
    for client in 0..4 {
        let upload = store.early.take(Sender { client, round: 1 }).unwrap().unwrap();
        assert_eq!(number(&upload), client as f32);
    }
    assert!(store.early.take(Sender { client: 0, round: 1 }).unwrap().is_none());
    assert_eq!(store.room.used().1, 0);
    // What they took is free again.
    assert_eq!(store.disk.write(&state(&*bench.method, 0.0)).unwrap().offset, 0);
}

/// A message that is all one number.
fn upload(method: &dyn ErasedMethod, number: usize) -> Value {
    let init = Model { parameters: vec![number as f32; 100], buffers: Vec::new() };
    method.broadcast(&method.start_server(&init)).unwrap()
}

#[test]
fn uploads_that_wait_at_the_server_share_the_room_and_not_the_file() {
    let bench = Bench::new();
    let clients = bench.store(2 * STATE);
    let server = || ServerStore::new(bench.folder.path(), 0, clients.room.clone(), &*bench.method);
    let from = |client| Sender { client, round: 1 };
    let before = server();
    clients.early.put(from(0), upload(&*bench.method, 0)).unwrap();
    for client in 1..4 {
        before.uploads.put(from(client), upload(&*bench.method, client)).unwrap();
    }
    let uploads = bench.folder.path().join("uploads.bin");
    assert_eq!(fs::metadata(&uploads).unwrap().len(), SLOT + STATE);
    assert!(!bench.shared().exists());
    // A checkpoint of an earlier version names uploads in the file of the states.
    let old = clients.disk.write(&upload(&*bench.method, 7)).unwrap();
    let mut kept = before.uploads.persist().unwrap();
    kept.push((from(7), old.clone()));
    let named: Vec<Stored> = kept.iter().map(|(_, stored)| stored.clone()).collect();
    let after = server();
    after.sweep(&named);
    clients.sweep(&named);
    after.uploads.adopt(&kept);
    for client in [1, 2, 3, 7] {
        let upload = after.uploads.take(from(client)).unwrap().unwrap();
        assert_eq!(number(&upload), client as f32);
    }
    // What the checkpoint names stays until the next one, whoever has read it.
    after.uploads.put(from(9), upload(&*bench.method, 9)).unwrap();
    clients.disk.write(&state(&*bench.method, 0.0)).unwrap();
    for (sender, stored) in &kept {
        let upload = bench.method.decode_upload(&after.load(stored).unwrap()).unwrap();
        assert_eq!(number(&upload), sender.client as f32);
    }
    after.sweep(&[]);
    clients.sweep(&[]);
    assert_eq!(fs::read_dir(bench.folder.path()).unwrap().count(), 0);
}

#[test]
fn a_checkpoint_names_whole_states_and_stale_ones_make_room() {
    let bench = Bench::new();
    let store = bench.store(0);
    std::thread::scope(|scope| {
        let _background = store.in_background(scope);
        for number in [1.0, 2.0, 3.0] {
            for client in 0..5 {
                bench.train(&store, client, number);
            }
        }
        let named = store.persist(6).unwrap();
        assert!(named[5].is_none());
        let named: Vec<Stored> = named.into_iter().flatten().collect();
        let places: std::collections::HashSet<u64> =
            named.iter().map(|stored| stored.offset).collect();
        assert_eq!(places.len(), 5);
        store.sweep(&named);
        // What a checkpoint names stays, whatever happens until the next one.
        for number in [4.0, 5.0, 6.0] {
            (0..5).for_each(|client| bench.train(&store, client, number));
        }
        let newer: Vec<Stored> = store.persist(5).unwrap().into_iter().flatten().collect();
        assert!(newer.iter().all(|stored| !places.contains(&stored.offset)));
        for stored in &named {
            assert_eq!(
                postcard::from_bytes::<Model>(&store.disk.read(stored).unwrap())
                    .unwrap()
                    .parameters[0],
                3.0
            );
        }
        assert!(bench.length() <= 11 * SLOT, "{}", bench.length());
        store.sweep(&newer);
        (0..5).for_each(|client| bench.train(&store, client, 7.0));
        let newest: Vec<Stored> = store.persist(5).unwrap().into_iter().flatten().collect();
        assert!(newest.iter().all(|stored| !newer.contains(stored)));
        assert!(bench.length() <= 11 * SLOT, "{}", bench.length());
        store.sweep(&[]);
        assert!(!bench.shared().exists());
    });
}

#[test]
fn what_is_synced_was_written_and_a_disk_that_fails_then_is_told() {
    use crate::files::faults::{Faults, Lasting};
    let bench = Bench::new();
    let store = bench.store_with(3);
    let watched = Faults::none_below(bench.folder.path());
    store.sync().unwrap();
    // Nothing was written since.
    store.sync().unwrap();
    let calls: Vec<&str> = watched.made().iter().map(|made| made.call).collect();
    assert_eq!(calls, ["open", "sync", "sync folder"]);
    bench.train(&store, 0, 9.0);
    write_one(&store);
    for call in 1..=3 {
        let _full = Faults::below(bench.folder.path(), call, Lasting::Once);
        let error = store.sync().unwrap_err().to_string();
        assert!(error.starts_with("cannot sync ") && error.contains("\nhint: "), "{error}");
    }
    store.sync().unwrap();
}

#[test]
fn files_of_shares_are_told_apart() {
    let share = |session, number| ShareName { number, session };
    let file =
        |share: ShareName| Stored { file: share.file().into_owned(), offset: 0, bytes: 1, hash: 0 };
    assert_eq!(file(ShareName::WHOLE).file, "values.bin");
    assert_eq!(file(share(7, 0)).file, "values.bin", "whoever has the driver has the folder");
    let stored = file(share(255, 3));
    assert_eq!(stored.file, "values-00000000000000ff-3.bin");
    assert!(stored.is_of_share(share(255, 3)));
    assert!(!stored.is_of_share(share(255, 4)) && !stored.is_of_share(share(254, 3)));
}
