//! What a rank's failure comes to.

use crate::party::{Party, Sees, alone, experiment, named, plan_of};
use formant_ranks::{Arrived, Fabric, Frame, Leader, Link, Mesh, Place, Spot, To, dismiss, follow};
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{Quiet, RuntimeError};
use formant_testing::{DENSE, Folder};
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
        arrived: &mut Arrived<'_>,
        wanted: &dyn Fn() -> bool,
    ) -> Result<bool, String> {
        match &mut self.fault {
            Fault::Breaks(left) => {
                *left = left.checked_sub(frames.len()).ok_or("the cable is out")?;
                self.mesh.exchange(frames, arrived, wanted)
            }
            Fault::Sticks => {
                while !frames.is_empty() && wanted() {
                    std::thread::yield_now();
                }
                self.mesh.exchange(&[], arrived, wanted)
            }
            Fault::Panics => panic!("nobody has thought of this"),
        }
    }

    fn abort(&mut self) {}
}

#[test]
fn a_broken_connection_ends_the_run_by_name_and_it_goes_on_from_its_checkpoint() {
    let text = experiment(&named(&["ditto"]), DENSE, "").replace("rounds = 3", "rounds = 6");
    let (undisturbed, _) = alone(&text);
    let (mut broken, mut whole) = (0, 0);
    for frames in [0, 3, 10, 20, 40, 80, 160, 1_000] {
        let folder = Folder::new();
        let states = folder.file("states");
        std::fs::create_dir_all(&states).unwrap();
        let outcome = std::thread::scope(|scope| {
            let mut ends = Mesh::of(3).into_iter();
            let own = ends.next().unwrap();
            for end in ends {
                let (text, states) = (&text, states.clone());
                scope.spawn(move || {
                    let link = Link::start(move || Ok(end)).unwrap();
                    // Its end depends on where rank 0 is then.
                    let _ = follow(&plan_of(text), &link, &Place::Shared(states));
                });
            }
            let link = Link::start(move || Ok(Faulty { mesh: own, fault: Fault::Breaks(frames) }))
                .unwrap();
            let plan = plan_of(&text);
            let spot = Spot { host: "here".into(), threads: 1, sees: true };
            let outcome = std::thread::scope(|scope| {
                let mut leader = Leader::new(&plan, scope, &link, vec![spot; 3]);
                sim::extend_on(&mut leader, &plan, folder.path(), &Quiet, &AtomicBool::new(false))
            });
            assert_eq!(link.is_broken(), outcome.is_err());
            dismiss(&link);
            outcome
        });
        match outcome {
            Ok(outcome) => {
                assert_eq!(outcome, Outcome::Complete);
                whole += 1;
            }
            Err(error) => {
                broken += 1;
                assert!(matches!(error, RuntimeError::Executor { .. }), "{error:?}");
                let told = error.to_string();
                let cause = "on here failed: the cable is out";
                assert!(
                    ["rank 1", "rank 2"].iter().any(|rank| told == format!("{rank} {cause}")),
                    "{told}"
                );
                let never = AtomicBool::new(false);
                let party = Party { sees: Sees::None, ..Party::of(2) };
                party.run(&text, &folder, (&Quiet, &never)).unwrap();
            }
        }
        assert_eq!(folder.result(), undisturbed, "after {frames} frames");
    }
    assert!(broken > 3 && whole > 0, "{broken} broken, {whole} whole");
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
