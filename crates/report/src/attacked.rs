//! What tables say of a run whose clients do not all mean well.

use crate::Evaluation;
use formant_runtime::event::RunStarted;
use serde::Serialize;
use std::collections::BTreeSet;

/// Who attacked a method. Its PM figures are of all others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attacked {
    /// How many attack.
    pub attackers: usize,
    /// Of how many clients.
    pub clients: usize,
    /// What they do, and from which round on if not from the first.
    pub kinds: Vec<String>,
    /// The attackers' own PM at the last evaluation, weighted by local test sizes.
    pub pm_last: Option<f64>,
}

impl Attacked {
    /// What a run's first line and a method's last evaluation say; nothing if nobody attacks.
    pub(crate) fn of(run: &RunStarted, last: Option<&Evaluation>) -> Option<Self> {
        let who: BTreeSet<usize> =
            run.attacks.iter().flat_map(|attack| attack.clients.iter().copied()).collect();
        let kinds = run.attacks.iter().map(|attack| match attack.from {
            0 | 1 => attack.kind.clone(),
            from => format!("{} from round {from}", attack.kind),
        });
        (!who.is_empty()).then(|| Self {
            attackers: who.len(),
            clients: run.clients.len(),
            kinds: kinds.collect(),
            pm_last: last.and_then(|evaluation| evaluation.attackers),
        })
    }
}

/// Whether a client is one of a run's attackers.
pub(crate) fn attacks(run: &RunStarted, client: usize) -> bool {
    run.attacks.iter().any(|attack| attack.clients.contains(&client))
}

/// Whose figures the table has.
pub(crate) fn attack_note<'r>(
    each: impl Iterator<Item = (&'r str, Option<&'r Attacked>)>,
) -> Option<String> {
    let found: Vec<(&str, &Attacked)> =
        each.filter_map(|(name, attacked)| Some((name, attacked?))).collect();
    let (_, Attacked { attackers, clients, kinds, .. }) = found.first()?;
    let own = found
        .iter()
        .filter_map(|(name, attacked)| Some(format!("{name} {:.1}", 100.0 * attacked.pm_last?)));
    let own: Vec<String> = own.collect();
    let apart = if own.is_empty() {
        String::new()
    } else {
        format!(" The attackers' own PM at last: {}.", own.join(", "))
    };
    Some(format!(
        "{attackers} of {clients} clients attack ({}); PM and worst 10 % are of the honest ones.{apart}",
        kinds.join(", ")
    ))
}
