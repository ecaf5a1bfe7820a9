//! What a rank's failure comes to.

use crate::party::{Party, Sees, alone, experiment, named, plan_of};
use formant_ranks::{
    Fabric, Frame, Leader, Link, Mesh, Place, RanksError, Served, Spot, To, dismiss, follow,
};
use formant_runtime::files::faults::Faults;
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{Checkpoint, Quiet, RuntimeError};
use formant_testing::{DENSE, Folder, StopAfter};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// What is wrong with a mesh.
enum Fault {
    /// It breaks after so many frames of this rank have gone.
    Breaks(usize),
    /// Nobody takes what is sent.
    Sticks,
    /// Something that nobody has thought of.
    Panics,
}

struct Faulty {
    mesh: Mesh,
    fault: Fault,
}

impl Fabric for Faulty {
    fn rank(&self) -> usize {
        self.mesh.rank()
    }

    fn size(&self) -> usize {
        self.mesh.size()
    }

    fn host(&self) -> String {
        self.mesh.host()
    }

    fn exchange(
        &mut self,
        frames: &[(To, Frame)],
        served: &mut dyn Served,
    ) -> Result<bool, RanksError> {
        match &mut self.fault {
            Fault::Breaks(left) => {
                let out = || RanksError::Fabric("the cable is out".into());
                *left = left.checked_sub(frames.len()).ok_or_else(out)?;
                self.mesh.exchange(frames, served)
            }
            Fault::Sticks => {
                while !frames.is_empty() && served.is_wanted() {
                    std::thread::yield_now();
                }
                self.mesh.exchange(&[], served)
            }
            Fault::Panics => panic!("nobody has thought of this"),
        }
    }

    fn abort(&mut self) {}

    fn leave(self) {
        self.mesh.leave();
    }
}

/// Everybody sees the run folder and stays where it is; or only rank 1 sees it, and every client moves after every wave,
/// several times between two checkpoints: those name states in files of ranks that have others by then.
#[test]
fn a_broken_connection_ends_the_run_by_name_and_it_goes_on_from_its_checkpoint() {
    let text = experiment(&named(&["ditto"]), DENSE, "").replace("rounds = 3", "rounds = 6");
    let settled = Party { sees: Sees::All, ..Party::of(3) };
    break_and_go_on(&text, settled, &[0, 3, 10, 20, 40, 80, 160, 1_000]);
    let text = text.replace("checkpoint_every = 2", "checkpoint_every = 4");
    let restless = Party { sees: Sees::Some, is_restless: true, ..Party::of(3) };
    break_and_go_on(
        &text,
        restless,
        &[60, 200, 420, 460, 480, 500, 520, 540, 560, 580, 600, 5_000],
    );
}

fn break_and_go_on(text: &str, party: Party, after: &[usize]) {
    let (undisturbed, _) = alone(text);
    let (mut broken, mut whole, mut resumed) = (0, 0, 0);
    for &frames in after {
        let folder = Folder::new();
        let breaking = move |mesh| Faulty { mesh, fault: Fault::Breaks(frames) };
        let run = party.run_over(breaking, text, &folder, (&Quiet, &AtomicBool::new(false)));
        assert_eq!(run.is_broken, run.outcome.is_err());
        match run.outcome {
            Ok(outcome) => {
                assert_eq!(outcome, Outcome::Complete);
                whole += 1;
            }
            Err(error) => {
                broken += 1;
                assert!(matches!(error, RuntimeError::Executor { .. }), "{error:?}");
                let told = error.to_string();
                let cause = "failed: the cable is out";
                let places = ["rank 1 on host 0", "rank 2 on host 1"];
                assert!(places.iter().any(|place| told == format!("{place} {cause}")), "{told}");
                let checkpoint = Checkpoint::read(folder.path()).unwrap();
                resumed += usize::from(checkpoint.is_some_and(|there| there.round > 0));
                let never = AtomicBool::new(false);
                let party = Party { ranks: 2, sees: Sees::None, ..party };
                party.run(text, &folder, (&Quiet, &never)).unwrap();
            }
        }
        assert_eq!(folder.result(), undisturbed, "after {frames} frames");
    }
    let counts = format!("{broken} broken, {resumed} of them after a checkpoint, {whole} whole");
    assert!(broken > 3 && resumed > 1 && whole > 0, "{counts}");
}

#[test]
fn what_goes_wrong_at_a_rank_is_told_by_name() {
    // At a checkpoint, and in the middle of a round: states do not fit into memory then.
    for memory in ["", "memory = \"1kB\"\n"] {
        a_rank_without_its_folder_is_told_by_name(memory);
    }
}

fn a_rank_without_its_folder_is_told_by_name(memory: &str) {
    let text = experiment(&named(&["ditto"]), DENSE, memory);
    let folder = Folder::new();
    let gone = folder.file("gone");
    let error = std::thread::scope(|scope| {
        let mut ends = Mesh::of(2).into_iter();
        let (own, end) = (ends.next().unwrap(), ends.next().unwrap());
        let (their_text, place) = (&text, Place::Shared(gone.clone()));
        scope.spawn(move || {
            let link = Link::start(move || Ok(end)).unwrap();
            follow(&plan_of(their_text), &link, &place).unwrap();
        });
        let link = Link::start(move || Ok(own)).unwrap();
        let plan = plan_of(&text);
        let spot = Spot { host: "there".into(), threads: 1, sees: true };
        let outcome = std::thread::scope(|scope| {
            let mut leader = Leader::new(&plan, scope, &link, vec![spot; 2]);
            sim::extend_on(&mut leader, &plan, folder.path(), &Quiet, &AtomicBool::new(false))
        });
        assert!(!link.is_broken(), "the rank lives");
        dismiss(&link);
        outcome.unwrap_err().to_string()
    });
    assert!(error.starts_with("rank 1 on there failed: cannot write "), "{error}");
    assert!(error.contains("gone"), "{error}");
}

#[test]
fn a_transfer_that_hangs_ends_with_the_ranks() {
    let mut ends = Mesh::of(2).into_iter();
    let own = Faulty { mesh: ends.next().unwrap(), fault: Fault::Sticks };
    let link = Link::start(move || Ok(own)).unwrap();
    dismiss(&link);
    link.abort();
}

#[test]
fn a_panic_of_the_fabric_is_an_error() {
    let mut ends = Mesh::of(2).into_iter();
    let own = Faulty { mesh: ends.next().unwrap(), fault: Fault::Panics };
    let link = Link::start(move || Ok(own)).unwrap();
    let plan = plan_of(&experiment(&named(&["fedavg"]), DENSE, ""));
    let spot = Spot { host: "here".into(), threads: 1, sees: true };
    let folder = Folder::new();
    let outcome = std::thread::scope(|scope| {
        let mut leader = Leader::new(&plan, scope, &link, vec![spot; 2]);
        sim::extend_on(&mut leader, &plan, folder.path(), &Quiet, &AtomicBool::new(false))
    });
    assert!(outcome.unwrap_err().to_string().contains("has panicked"));
    assert!(link.is_broken());
}

/// What was called below a folder, as a word and a file's name: the new one, of a rename.
fn called(watched: &Faults) -> Vec<(&'static str, String)> {
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let made = watched.made().into_iter();
    made.map(|made| (made.call, name(made.to.as_ref().unwrap_or(&made.path)))).collect()
}

/// What a checkpoint names begins with one of these.
const NAMED: [&str; 5] = ["values", "uploads", "server-", "broadcast-", "best-"];

#[test]
fn what_a_checkpoint_names_is_on_disk_before_it_counts() {
    let text = experiment(&named(&["scd"]), DENSE, "");
    for sees in [Sees::All, Sees::None] {
        let folder = Folder::new();
        let watched = Faults::none_below(folder.path());
        let party = Party { sees, ..Party::of(2) };
        party.run(&text, &folder, (&Quiet, &AtomicBool::new(false))).unwrap();
        let (mut ahead, mut checkpoints, mut of_others) = (BTreeSet::new(), 0, 0);
        for (call, file) in called(&watched) {
            let is_named =
                NAMED.iter().any(|name| file.starts_with(name)) && !file.contains(".tmp");
            match call {
                // To be written; what was swept is cut off without it.
                "open" | "rename" if is_named => drop(ahead.insert(file)),
                "sync" => {
                    of_others += usize::from(file.starts_with("values-"));
                    ahead.remove(&file);
                }
                "rename" if file == "checkpoint.json" => {
                    assert!(ahead.is_empty(), "{sees:?}: {ahead:?}");
                    checkpoints += 1;
                }
                _ => {}
            }
        }
        assert!(checkpoints > 2 && of_others > 1, "{sees:?}: {checkpoints}, {of_others}");
    }
    // In one process, nothing is waited for.
    let folder = Folder::new();
    let watched = Faults::none_below(folder.path());
    folder.run(&plan_of(&text)).unwrap();
    let synced = called(&watched).into_iter().filter(|(call, _)| *call == "sync");
    assert_eq!(synced.filter(|(_, file)| NAMED.iter().any(|n| file.starts_with(n))).count(), 0);
}

/// Ranks that are still at work when their run goes on elsewhere must not write where that one's do.
#[test]
fn no_session_writes_into_files_of_another_one() {
    let text = experiment(&named(&["ditto"]), DENSE, "");
    for sees in [Sees::All, Sees::None] {
        let (folder, party) = (Folder::new(), Party { sees, ..Party::of(3) });
        let session = |round| {
            let watched = Faults::none_below(folder.path());
            let stop = AtomicBool::new(false);
            let observer = StopAfter { label: "number 0".into(), round, stop: &stop };
            party.run(&text, &folder, (&observer, &stop)).unwrap();
            let opened = called(&watched).into_iter().filter(|(call, _)| *call == "write");
            let shares = opened.filter(|(_, file)| file.starts_with("values-"));
            shares.map(|(_, file)| file).collect::<BTreeSet<String>>()
        };
        let (first, second) = (session(1), session(2));
        assert!(!first.is_empty() && !second.is_empty(), "{sees:?}");
        assert!(first.is_disjoint(&second), "{sees:?}: {first:?} {second:?}");
        let never = AtomicBool::new(false);
        party.run(&text, &folder, (&Quiet, &never)).unwrap();
        assert_eq!(folder.result(), alone(&text).0);
        // What nobody names any more is gone.
        let left = std::fs::read_dir(folder.file("states")).unwrap();
        let left: Vec<String> =
            left.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        assert!(!left.iter().any(|name| first.contains(name)), "{left:?}");
    }
}
