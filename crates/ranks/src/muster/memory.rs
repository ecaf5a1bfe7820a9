//! Whether ranks fit into the memory of their hosts.

use super::Card;
use crate::RanksError;
use formant_runtime::quantity::memory;
use formant_runtime::{Footprint, RunPlan};
use std::collections::BTreeMap;
use std::fs;

/// A rank on its host.
pub(super) struct Tenant {
    pub(super) card: Card,
    /// Bytes that it has taken for its plan. Data are among them that are not mapped: each rank has its own.
    pub(super) taken: u64,
    pub(super) threads: usize,
}

/// What a rank takes beside that.
pub(super) struct Need {
    footprint: Footprint,
    /// How many workers have something to do at most.
    most: usize,
    /// Bytes of states that it keeps in memory once its clients have taken part.
    states: u64,
}

impl Need {
    /// Of each of so many ranks.
    pub(super) fn of(plan: &RunPlan, ranks: usize) -> Self {
        let init = plan.init();
        let state = |method: &formant_runtime::MethodPlan| {
            method.method.start_client(&init).encoded_len().unwrap_or(0) as u64
        };
        let largest = plan.methods.iter().map(state).max().unwrap_or(0);
        let clients = plan.federation.clients.len() / ranks.max(1);
        Self {
            footprint: Footprint::of(plan),
            most: plan.trainers().max(1),
            states: plan.memory.min(largest.saturating_mul(clients as u64)),
        }
    }

    /// Ranks of one host share its memory: each fits alone, and all of them may not.
    pub(super) fn check(&self, tenants: &[Tenant]) -> Result<(), RanksError> {
        let mut hosts: BTreeMap<&str, (Option<u64>, u64, usize)> = BTreeMap::new();
        for Tenant { card, taken, threads } in tenants {
            let (free, needed, ranks) = hosts.entry(&card.host).or_default();
            // Who has looked first has seen most of it.
            *free = (*free).max(card.memory);
            let working = self.footprint.with_workers((*threads).min(self.most));
            *needed += working.saturating_add(*taken).saturating_add(self.states);
            *ranks += 1;
        }
        let short = hosts.into_iter().filter_map(|(host, (free, needed, ranks))| {
            let free = free.filter(|free| *free < needed)?;
            Some((
                format!("the {ranks} ranks on {host}"),
                format!(
                    "together they take at least {} of memory, and {} are free; start fewer of them there, or set runtime.threads or runtime.memory lower",
                    memory(needed),
                    memory(free)
                ),
            ))
        });
        let short: Vec<(String, String)> = short.collect();
        if short.is_empty() { Ok(()) } else { Err(RanksError::Refused(short)) }
    }
}

/// Bytes that this process has for itself; files that it has mapped are not among them. 0 where the system does not tell.
pub(super) fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = anonymous.and_then(|text| text.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Bytes that it has taken since it has said who it is.
pub(super) fn taken_since(card: &Card) -> u64 {
    resident().saturating_sub(card.resident)
}

#[cfg(test)]
mod tests {
    use super::super::card::tests::card;
    use super::*;

    const GIB: u64 = 1 << 30;

    fn tenants(threads: [usize; 3], taken: u64) -> Vec<Tenant> {
        let cards = [card("a", "0", 1), card("a", "1", 1), card("b", "0", 1)];
        let tenant = |(card, threads)| Tenant { card, taken, threads };
        cards.into_iter().zip(threads).map(tenant).collect()
    }

    fn need(worker: u64, states: u64) -> Need {
        let (model, shared, worker) = (1, 10 * GIB, worker * GIB);
        // Rank 0 knows of one worker before threads are settled.
        let footprint = Footprint { model, shared, worker, batch: 1, workers: 1 };
        Need { footprint, most: 4, states }
    }

    #[test]
    fn ranks_of_one_host_have_to_fit_together() {
        need(20, 0).check(&tenants([2; 3], 0)).unwrap();
        let refused = need(21, 0).check(&tenants([2; 3], 0)).unwrap_err().to_string();
        assert!(
            refused.contains("the 2 ranks on a: together they take at least 104.0 GiB"),
            "{refused}"
        );
        assert!(!refused.contains("on b"), "{refused}");
        let unknown = tenants([2; 3], 0).into_iter().map(|tenant| {
            let card = Card { memory: None, ..tenant.card };
            Tenant { card, ..tenant }
        });
        need(21, 0).check(&unknown.collect::<Vec<_>>()).unwrap();
    }

    #[test]
    fn each_rank_counts_with_its_own_threads() {
        need(10, 0).check(&tenants([2, 4, 4], 0)).unwrap();
        assert!(need(10, 0).check(&tenants([4, 5, 1], 0)).is_ok(), "four workers are enough");
        assert!(need(11, 0).check(&tenants([4, 4, 1], 0)).is_err());
    }

    #[test]
    fn data_and_states_of_each_rank_count() {
        need(20, 0).check(&tenants([2; 3], 0)).unwrap();
        assert!(need(20, 0).check(&tenants([2; 3], GIB)).is_err(), "data that are decoded");
        assert!(need(20, GIB).check(&tenants([2; 3], 0)).is_err(), "states");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_knows_what_it_has_taken() {
        assert!(resident() > 1 << 16);
    }
}
