//! What a client serves in place of its personal model is no worse on the samples that it chose by, and training knows
//! nothing of it.

use super::keeping::accuracy;
use crate::{Folder, Subject, run};
use formant_model::folder::{GENERIC, MODELS, PERSONAL, personal};
use formant_runtime::Guard;

/// With every guard the states are those without one, for any number of threads; on the samples that a client chooses
/// by, what it serves gets at least as many right as its personal and as the generic model. Methods that have not both
/// notice nothing.
pub fn a_guard_serves_what_is_best_and_training_never_sees_it(subject: &Subject) {
    let entry = subject.entry();
    for case in subject.cases() {
        let (plan, without) = (case.plan(), Folder::new());
        without.run(&plan).unwrap();
        let (reference, label) = (without.result(), &plan.methods[0].label);
        for guard in [Guard::Best, Guard::Bands] {
            let plan = case.plan_with(|plan| plan.evaluation.guard = guard);
            let folder = Folder::new();
            folder.run(&plan).unwrap();
            let fate = folder.result();
            assert_eq!(fate.fingerprints, reference.fingerprints, "{case:?}");
            if !(entry.generic && entry.personal) {
                assert_eq!(fate, reference, "{case:?}");
                continue;
            }
            let crowded = case.plan_with(|plan| {
                (plan.evaluation.guard, plan.threads) = (guard, 8);
            });
            assert_eq!(run(&crowded), fate, "{case:?}");
            let last = fate.evaluations.last().unwrap();
            assert_eq!(last.gm, reference.evaluations.last().unwrap().gm, "{case:?}");
            let told = last.guard.as_ref().unwrap();
            let holders = plan.federation.clients.iter();
            let choosers = holders.filter(|data| !data.validation.is_empty()).count();
            assert_eq!((told.clients, told.shares.len()), (choosers, guard.shares()), "{case:?}");
            let models = |folder: &Folder| folder.file(MODELS).join(label);
            let (mine, theirs) = (models(&folder), models(&without));
            for (client, data) in plan.federation.clients.iter().enumerate() {
                let file = |place: &std::path::Path| place.join(PERSONAL).join(personal(client));
                let on = |file: &std::path::Path| accuracy(file, &plan, Some(&data.validation));
                if data.validation.is_empty() {
                    let bytes = |place| std::fs::read(file(place)).unwrap();
                    assert_eq!(bytes(&mine), bytes(&theirs), "{case:?}");
                    continue;
                }
                let served = on(&file(&mine));
                let trained = on(&file(&theirs));
                let generic = on(&theirs.join(GENERIC));
                assert!(served >= trained.max(generic), "{case:?}, client {client}");
                let scored = accuracy(&file(&mine), &plan, Some(&plan.scored(client)));
                assert_eq!(last.pm.as_ref().unwrap().per_client[client], Some(scored), "{case:?}");
            }
        }
    }
}
