//! Who may take part.

use crate::party::{experiment, named, plan_of};
use formant_ranks::{Call, Card, Leader, Link, Mesh, Place, RanksError, Spot, answer, call};
use formant_ranks::{dismiss, follow, gather, settle};
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{Quiet, RunPlan};
use formant_testing::{DENSE, Folder};
use std::path::Path;
use std::sync::atomic::AtomicBool;

type Prepare = fn(&Call) -> Result<RunPlan, String>;

/// What rank 1 does.
#[derive(Clone, Copy)]
struct Other {
    /// What becomes of its card.
    card: fn(&mut Card),
    prepare: Prepare,
}

const WILLING: Other = Other { card: |_| {}, prepare: |call| Ok(plan_of(&call.experiment)) };

/// Musters rank 0 and another one for a run in a folder, and runs it if nobody is refused.
fn muster(other: Other, run_dir: &Path) -> Result<Vec<Spot>, RanksError> {
    let mut ends = Mesh::of(2).into_iter();
    let (own, end) = (ends.next().unwrap(), ends.next().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let link = Link::start(move || Ok(end)).unwrap();
            let mut card = Card::own(&link).unwrap();
            (other.card)(&mut card);
            let part = answer(&link, &card, other.prepare).unwrap();
            if let Some((plan, place)) = part {
                assert!(matches!(place, Place::Shared(_)));
                follow(&plan, &link, &place).unwrap();
            }
        });
        let link = Link::start(move || Ok(own)).unwrap();
        let outcome = lead(&link, run_dir);
        dismiss(&link);
        outcome
    })
}

fn lead(link: &Link, run_dir: &Path) -> Result<Vec<Spot>, RanksError> {
    let card = Card::own(link).unwrap();
    let experiment = experiment(&named(&["fedavg"]), DENSE, "");
    call(link, &card, &Call { experiment: experiment.clone() })?;
    let mut plan = plan_of(&experiment);
    let mut spots = gather(link, &card, &plan, Some(1))?;
    settle(link, run_dir, &plan, &mut spots)?;
    plan.threads = spots[0].threads;
    let outcome = std::thread::scope(|scope| {
        let mut leader = Leader::new(&plan, scope, link, spots.clone());
        sim::extend_on(&mut leader, &plan, run_dir, &Quiet, &AtomicBool::new(false))
    });
    assert_eq!(outcome.unwrap(), Outcome::Complete);
    Ok(spots)
}

fn refused(other: Other) -> String {
    let folder = Folder::new();
    let run_dir = folder.file("run");
    let refused = muster(other, &run_dir).unwrap_err().to_string();
    assert!(!run_dir.exists(), "nothing was begun");
    refused
}

#[test]
fn who_is_about_to_do_the_same_takes_part() {
    let folder = Folder::new();
    let spots = muster(WILLING, folder.path()).unwrap();
    assert!(spots.iter().all(|spot| spot.sees && spot.threads == 1), "{spots:?}");
    let left: Vec<_> = std::fs::read_dir(folder.file("states")).unwrap().collect();
    let names = left.iter().map(|entry| entry.as_ref().unwrap().file_name());
    assert!(!names.into_iter().any(|name| name.to_string_lossy().starts_with("ranks-")));
}

#[test]
fn another_binary_is_refused() {
    let why = refused(Other { card: |card| card.binary += 1, ..WILLING });
    assert!(why.contains("not all ranks can take part\n  rank 1 on this process: "), "{why}");
    assert!(why.contains("binary") && why.contains("copy one to all hosts"), "{why}");
}

#[test]
fn who_has_no_data_is_refused_with_its_own_words() {
    let why = refused(Other { prepare: |_| Err("data.dir: /data is not there".into()), ..WILLING });
    assert!(why.ends_with("rank 1 on this process: data.dir: /data is not there"), "{why}");
}

#[test]
fn other_data_are_refused() {
    let other = |call: &Call| {
        let mut plan = plan_of(&call.experiment);
        plan.header.data_check = Some("0123".into());
        Ok(plan)
    };
    let why = refused(Other { prepare: other, ..WILLING });
    assert!(why.contains("its data are others") && why.contains("0123"), "{why}");
}

#[test]
fn data_that_are_divided_in_another_way_are_refused() {
    let other = |call: &Call| {
        let mut plan = plan_of(&call.experiment);
        // The same samples, and as many for everybody: two clients have swapped one.
        let [one, other, ..] = plan.federation.clients.as_mut_slice() else { unreachable!() };
        std::mem::swap(&mut one.train[0], &mut other.train[0]);
        Ok(plan)
    };
    let why = refused(Other { prepare: other, ..WILLING });
    assert!(why.contains("divided in another way"), "{why}");
}

#[test]
fn a_processor_that_computes_spectra_otherwise_is_refused() {
    let why = refused(Other { card: |card| card.instructions.push('2'), ..WILLING });
    assert!(why.contains("choose hosts of one kind"), "{why}");
}
