//! How much memory there is, and how much a run takes at the very least.

use crate::{MethodPlan, RunPlan};
use formant_numerics::{Detail, EVALUATION_BATCH, Engine};
use std::fs;
use std::path::Path;

/// What a run takes at the very least: one that has less cannot end well. What else there is, such as
/// client states, may be put on disk or is small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of one model.
    pub model: u64,
    /// Bytes that are there once: initial values, the server's state, a broadcast, and what is counted
    /// while the largest set is scored.
    pub shared: u64,
    /// Bytes of one worker thread.
    pub worker: u64,
    /// Of these, what grows with the batch.
    pub batch: u64,
    /// Worker threads that have something to do.
    pub workers: usize,
}

impl RunPlan {
    /// How many clients, or newcomers, may train at the same time.
    pub fn trainers(&self) -> usize {
        let clients = self.federation.clients.iter().filter(|data| !data.train.is_empty());
        clients.count().max(self.federation.newcomers.clients.len())
    }
}

/// What a machine has to do, as far as memory goes.
pub struct Load<'a> {
    /// What trains and scores.
    pub engine: &'a dyn Engine,
    /// The methods that are trained here; none where there is no data to train on.
    pub methods: &'a [MethodPlan],
    /// Training samples of the largest client.
    pub held: usize,
    /// Size of the largest set that a model is scored on.
    pub scored: usize,
    /// What is counted while it is scored.
    pub detail: Detail,
    /// Worker threads that have something to do.
    pub workers: usize,
}

impl Footprint {
    /// What a run takes.
    pub fn of(plan: &RunPlan) -> Self {
        let clients = &plan.federation.clients;
        let newcomers = &plan.federation.newcomers.clients;
        let trainers = plan.trainers();
        let split = plan.evaluation.split;
        let locally = clients.iter().chain(newcomers).map(|data| split.of(data).len());
        Self::under(&Load {
            engine: &*plan.engine,
            methods: if trainers > 0 { &plan.methods } else { &[] },
            held: plan.largest_holding(),
            scored: locally.fold(plan.scored_globally(), usize::max),
            detail: Detail::of(&plan.evaluation.metrics),
            // Whoever holds no client's data aggregates, and scores with one thread.
            workers: plan.threads.min(trainers).max(1),
        })
    }

    /// What a load takes.
    pub fn under(load: &Load<'_>) -> Self {
        let layout = load.engine.network().layout();
        let model = 4 * (layout.parameters() as u64).saturating_add(layout.buffer_values() as u64);
        // Who has nothing to score makes no pass; a pass over nothing cannot be asked about.
        let scoring = load.engine.pass_bytes(load.scored.clamp(1, EVALUATION_BATCH), false);
        let trained = load.methods.iter().map(|method| training(load, method, model));
        let (worker, batch) = trained.fold((scoring, scoring), Ord::max);
        let workers = load.workers;
        let counted = load.detail.bytes(load.scored, load.engine.network().classes());
        let shared = model.saturating_mul(3).saturating_add(counted);
        Self { model, shared, worker, batch, workers }
    }

    /// All of it.
    pub fn bytes(&self) -> u64 {
        self.with_workers(self.workers)
    }

    /// All of it with another number of worker threads.
    pub fn with_workers(&self, workers: usize) -> u64 {
        self.shared.saturating_add(self.worker.saturating_mul(workers as u64))
    }
}

/// Bytes of a worker that trains, and those of them that grow with the batch: the model, its gradient,
/// what the optimiser remembers, and what passes through the layers.
fn training(load: &Load<'_>, method: &MethodPlan, model: u64) -> (u64, u64) {
    let phases = [&method.shared, &method.personal];
    let remembered = phases.map(|phase| phase.base.optimiser.vectors() as u64);
    let copies = 2 + remembered[0].max(remembered[1]);
    let batch = load.engine.pass_bytes(method.largest_batch(load.held), true);
    (model.saturating_mul(copies).saturating_add(batch), batch)
}

/// Bytes that this process may still take, swap included; `None` where the system does not tell. On
/// Linux, what the machine has left or what a container's limit leaves, whichever is less.
pub fn available() -> Option<u64> {
    available_by(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
}

fn available_by(proc: &Path, groups: &Path) -> Option<u64> {
    let info = fs::read_to_string(proc.join("meminfo")).ok()?;
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
    };
    let swap = field("SwapFree").unwrap_or(0);
    let machine = field("MemAvailable")?.saturating_add(swap);
    let group = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    let group = group.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let own = groups.join(group);
    let limits = own.ancestors().take_while(|folder| folder.starts_with(groups));
    Some(limits.filter_map(|folder| left_in_group(folder, swap)).fold(machine, u64::min))
}

/// What the limit of a control group leaves, if it has one. Cached files do not count: they give way.
fn left_in_group(folder: &Path, swap: u64) -> Option<u64> {
    let number =
        |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    let limit = number("memory.max")?;
    let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let cached: u64 = stat
        .lines()
        .filter_map(|line| {
            line.strip_prefix("active_file ").or(line.strip_prefix("inactive_file "))
        })
        .filter_map(|bytes| bytes.parse::<u64>().ok())
        .sum();
    let used = number("memory.current").unwrap_or(0).saturating_sub(cached);
    let swap = number("memory.swap.max").map_or(swap, |limit| swap.min(limit));
    Some(limit.saturating_sub(used).saturating_add(swap))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       24000000 kB\nMemFree:         1000000 kB\n\
        MemAvailable:    8000000 kB\nSwapTotal:       500000 kB\nSwapFree:         400000 kB\n";

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn available_in(files: &[(&str, &str)]) -> Option<u64> {
        let root = machine(files);
        available_by(&root.path().join("proc"), &root.path().join("groups"))
    }

    #[test]
    fn the_machine_or_the_container_whichever_has_less() {
        assert_eq!(available_in(&[]), None);
        let free = 8_400_000 * 1024;
        assert_eq!(available_in(&[("proc/meminfo", MEMINFO)]), Some(free));
        let limited = |limit, stat| {
            available_in(&[
                ("proc/meminfo", MEMINFO),
                ("proc/self/cgroup", "0::/user/mine\n"),
                ("groups/memory.stat", "anon 1\n"),
                ("groups/user/memory.max", limit),
                ("groups/user/memory.current", "900000000\n"),
                ("groups/user/memory.swap.max", "0\n"),
                ("groups/user/memory.stat", stat),
                ("groups/user/mine/memory.max", "max\n"),
            ])
        };
        assert_eq!(limited("max\n", ""), Some(free));
        assert_eq!(limited("1000000000\n", ""), Some(100_000_000));
        assert_eq!(
            limited("1000000000\n", "anon 9\ninactive_file 300000000\nactive_file 5\n"),
            Some(400_000_005)
        );
        assert_eq!(limited("800000000\n", ""), Some(0), "over its limit");
        assert_eq!(limited("99000000000\n", ""), Some(free));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_tells() {
        assert!(available().unwrap() > 1 << 20);
    }
}
