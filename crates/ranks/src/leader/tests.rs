//! What rank 0 makes of ranks that do not do what they are told.

use super::*;
use crate::mesh::Mesh;
use crate::message::{Done, Failure};
use formant_experiment::Experiment;
use formant_methods::Zoo;

/// Ditto on the tiny federation, with two worker threads.
fn plan() -> RunPlan {
    let text = "seed = 3\nrounds = 1\n[data]\nclients = 5\n[network]\nname = \"logistic\"\n\
        [runtime]\nthreads = 2\n[[method]]\nname = \"ditto\"\n";
    let experiment = Experiment::parse(&text.parse().unwrap(), &[], &Zoo::standard()).unwrap();
    experiment.plan_on(formant_testing::federation().clone()).unwrap()
}

/// Rank 1 takes part, says what it is made to say once it is to look at models, and lives.
fn look_beside(outcome: fn() -> Result<Done, Failure>) -> Result<PersonalScores, RuntimeError> {
    let mut ends = Mesh::of(2).into_iter();
    let (own, end) = (ends.next().unwrap(), ends.next().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let link = Link::start(move || Ok(end)).unwrap();
            loop {
                let told = link.next(0).unwrap();
                let outcome = match told.head::<Order>().unwrap() {
                    Order::Quit => return,
                    Order::Begin { .. } => Ok(Done::Well),
                    Order::Look { .. } => outcome(),
                    _ => continue,
                };
                let ended = Ended { outcome, busy: 0.0, traffic: Traffic::default() };
                link.send(To::One(0), letter(told.order(), &Report::Ended(ended)).unwrap());
            }
        });
        let link = Link::start(move || Ok(own)).unwrap();
        let (plan, folder) = (plan(), tempfile::tempdir().unwrap());
        let spot = Spot { host: "there".into(), threads: 2, sees: true };
        let outcome = std::thread::scope(|scope| {
            let mut leader = Leader::new(&plan, scope, &link, vec![spot; 2]);
            let (room, held) = (Arc::new(Room::new(u64::MAX)), Held::default());
            let folder = folder.path();
            leader.begin(&Start { method: 0, folder, room: &room, held: &held, named: &[] })?;
            let method = &*plan.methods[0].method;
            let broadcast = method.broadcast(&method.start_server(&plan.init()))?;
            let (broadcast, pulse) = (&broadcast, Pulse::NONE);
            let (mean, folder, answers, models) = (true, None, true, 0);
            leader.score_personal(&Look {
                round: 1,
                broadcast,
                mean,
                folder,
                answers,
                models,
                pulse,
            })
        });
        crate::dismiss(&link);
        outcome
    })
}

#[test]
fn a_rank_that_fails_while_models_are_looked_at_ends_the_look_for_all_workers() {
    let failed = || Err(Failure::Other("its disk is full".into()));
    let told = look_beside(failed).unwrap_err().to_string();
    assert_eq!(told, "rank 1 on there failed: its disk is full");
}

#[test]
fn a_rank_that_shows_less_than_it_was_asked_for_is_told_by_name() {
    let told = look_beside(|| Ok(Done::Well)).unwrap_err().to_string();
    assert_eq!(told, "rank 1 on there failed: it has ended before its time");
}
