//! Whether a run fits into the memory that there is.

use crate::ExperimentError;
use formant_numerics::{CATALOGUE, Family};
use formant_runtime::Footprint;
use formant_runtime::event::RunStarted;
use formant_runtime::quantity::{count, memory};

/// Refuses what takes more memory than there is; where the system does not tell, nothing is.
pub(crate) fn check(
    header: &RunStarted,
    footprint: &Footprint,
    available: Option<u64>,
) -> Result<(), ExperimentError> {
    let Some(there) = available.filter(|there| footprint.bytes() > *there) else { return Ok(()) };
    let threads = match footprint.workers {
        1 => "one worker thread".to_owned(),
        many => format!("{many} worker threads"),
    };
    let problem = format!(
        "a run of `{}` with {} parameters ({}) takes at least {} of memory with {threads}, and {} are free",
        header.network,
        count(header.parameters as u64),
        memory(footprint.model),
        memory(footprint.bytes()),
        memory(there)
    );
    Err(ExperimentError::combination(problem, remedy(&header.network, footprint, there)))
}

/// The smallest change that helps.
fn remedy(network: &str, footprint: &Footprint, there: u64) -> String {
    let fewer = (1..footprint.workers).rev().find(|n| footprint.with_workers(*n) <= there);
    if let Some(fewer) = fewer {
        return format!(
            "set runtime.threads = {fewer}, or make the network or train.batch smaller"
        );
    }
    let entry = CATALOGUE.iter().find(|entry| entry.name == network);
    let network = match entry.map(|entry| entry.family) {
        Some(Family::Mlp) => "choose smaller layers (network.hidden)",
        Some(Family::ResNet) => "choose fewer channels (network.width) or a smaller network",
        Some(Family::Fixed | Family::Convolutional) | None => {
            "choose a smaller network (`formant networks` lists them)"
        }
    };
    if footprint.with_workers(1).saturating_sub(footprint.batch) <= there {
        return format!("make train.batch smaller, or {network}");
    }
    format!("{network}, or a machine with more memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, Override};
    use formant_methods::Zoo;
    use formant_runtime::RunPlan;

    const GIB: u64 = 1 << 30;

    /// The plan of one method with settings, in so many worker threads.
    fn plan(network: &str, train: &str, threads: usize) -> RunPlan {
        let text = format!(
            "[data]\nclients = 4\nsamples = 2000\n[network]\n{network}\n[train]\n{train}\n\
             [[method]]\nname = \"fedavg\"\n"
        );
        let threads = Override::new(&["runtime", "threads"], threads as i64);
        let experiment = parse(&text, &[threads]);
        experiment.plan_with(experiment.federation().unwrap(), None).unwrap()
    }

    fn parse(text: &str, overrides: &[Override]) -> Experiment {
        Experiment::parse(&text.parse().unwrap(), overrides, &Zoo::standard()).unwrap()
    }

    fn check(plan: &RunPlan, there: Option<u64>) -> Result<(), ExperimentError> {
        super::check(&plan.header, &Footprint::of(plan), there)
    }

    fn refusal(plan: &RunPlan, there: u64) -> String {
        check(plan, Some(there)).unwrap_err().to_string()
    }

    #[test]
    fn a_network_that_does_not_fit_is_refused_with_its_size() {
        let plan = plan("name = \"mlp\"\nhidden = [100000, 100000]", "batch = 10", 2);
        let message = refusal(&plan, 24 * GIB);
        assert!(
            message.starts_with(
                "a run of `mlp` with 10,079,600,010 parameters (37.5 GiB) takes at least 262."
            ),
            "{message}"
        );
        let there = "GiB of memory with 2 worker threads, and 24.0 GiB are free\nhint: ";
        assert!(message.contains(there), "{message}");
        assert!(message.ends_with("(network.hidden), or a machine with more memory"), "{message}");
        check(&plan, Some(300 * GIB)).unwrap();
        check(&plan, None).unwrap();
    }

    #[test]
    fn the_smallest_change_that_helps_is_named() {
        let wide = plan("name = \"resnet18\"\nwidth = 512", "batch = 10", 4);
        let one = Footprint::of(&wide).with_workers(1);
        assert!(refusal(&wide, one).contains("\nhint: set runtime.threads = 1, "));
        assert!(
            refusal(&wide, one / 4).contains("(network.width) or a smaller network, or a machine")
        );
        let deep = plan("name = \"cnn\"", "batch = 500", 1);
        let footprint = Footprint::of(&deep);
        assert!(footprint.batch > 4 * footprint.model);
        let message = refusal(&deep, footprint.bytes() - 1);
        assert!(message.contains("of memory with one worker thread"), "{message}");
        assert!(message.contains("\nhint: make train.batch smaller, or choose"), "{message}");
    }

    #[test]
    fn a_batch_is_no_larger_than_the_clients_make_it() {
        let all = plan("name = \"cnn\"", "batch = 65536", 1);
        let held = all.federation.clients.iter().map(|data| data.train.len()).max().unwrap();
        assert_eq!(all.largest_batch(&all.methods[0]), held);
        assert!(held < 2_000);
        check(&all, Some(GIB)).unwrap();
    }

    #[test]
    fn what_small_and_large_machines_run_is_let_through() {
        let quickstart = parse(crate::QUICKSTART, &[]);
        let quickstart = quickstart.plan_with(quickstart.federation().unwrap(), None).unwrap();
        check(&quickstart, Some(GIB / 4)).unwrap();
        check(&plan("name = \"resnet50\"", "batch = 64", 2), Some(12 * GIB)).unwrap();
    }

    #[test]
    fn velocity_takes_memory_too() {
        let plain = Footprint::of(&plan("name = \"mlp\"", "batch = 10", 1));
        let swift = Footprint::of(&plan("name = \"mlp\"", "batch = 10\nmomentum = 0.9", 1));
        assert_eq!(swift.worker - plain.worker, plain.model);
    }
}
