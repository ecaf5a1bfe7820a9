//! A binary with MPI: there may be several processes.

use crate::args::RunArgs;
use crate::interrupt::disregard;
use crate::output::{note, pasteable, print_error, silence};
use crate::program;
use crate::run::{experiment, threads};
use anyhow::{Context, anyhow};
use formant_experiment::Experiment;
use formant_methods::Zoo;
use formant_ranks::{Call, Card, Leader, Link, Mpi, Spot, launched};
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{Observer, RunPlan, RuntimeError, first_difference};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Who takes part in a run.
pub(crate) struct Team {
    /// None in a process that was started alone.
    party: Option<Party>,
}

/// This process among others.
struct Party {
    /// None once it is closed.
    link: Option<Link>,
    card: Card,
    /// Empty before all have answered.
    spots: Vec<Spot>,
}

impl Team {
    /// Meets whoever was started together with this process.
    pub(crate) fn gather() -> anyhow::Result<Self> {
        // Some libraries end a process that asks for others where nobody has started any.
        let Some(launched) = launched().filter(|launched| launched.size > 1) else {
            return Ok(Self { party: None });
        };
        let link = Link::start(Mpi::start).context("MPI does not start")?;
        if link.size() == 1 {
            return Err(anyhow!(
                "{} processes were started together, and MPI connects none of them
hint: start them with the launcher of the MPI library that this binary was built with; under Slurm, `srun --mpi=list` shows what it can. Processes that are to run alone: start each as a step of its own",
                launched.size
            ));
        }
        let card = Card::own(&link)?;
        Ok(Self { party: Some(Party { link: Some(link), card, spots: Vec::new() }) })
    }

    /// Whether there are others.
    pub(crate) fn is_many(&self) -> bool {
        self.party.is_some()
    }

    /// What any rank but the first does, to its end.
    pub(crate) fn follow(&mut self, args: &RunArgs, zoo: &Zoo) -> Option<anyhow::Result<ExitCode>> {
        let party = self.party.as_mut()?;
        let link = party.link.take()?;
        if link.rank() == 0 {
            party.link = Some(link);
            return None;
        }
        // Rank 0 hears signals for all, and says what there is to say.
        disregard();
        silence();
        let answered = formant_ranks::answer(&link, &party.card, |call| prepare(call, args, zoo));
        let followed = answered.and_then(|part| {
            part.map_or(Ok(()), |(plan, place)| formant_ranks::follow(&plan, &link, &place))
        });
        let Err(why) = followed else { return Some(Ok(ExitCode::SUCCESS)) };
        print_error(&anyhow!("rank {} on {}: rank 0 failed: {why}", link.rank(), link.host()));
        link.abort();
        Some(Ok(ExitCode::FAILURE))
    }

    fn party(&self) -> Option<(&Party, &Link)> {
        let party = self.party.as_ref()?;
        Some((party, party.link.as_ref()?))
    }

    /// Tells all others what is to be run, so that they get ready.
    pub(crate) fn call(&self, experiment: &Experiment) -> anyhow::Result<()> {
        let Some((party, link)) = self.party() else { return Ok(()) };
        let text =
            toml::to_string(&experiment.to_table()).context("cannot write the experiment")?;
        Ok(formant_ranks::call(link, &party.card, &Call { experiment: text })?)
    }

    /// Hears whether they are. Cores that several ranks may use are divided among them.
    pub(crate) fn muster(
        &mut self,
        plan: &mut RunPlan,
        experiment: &Experiment,
    ) -> anyhow::Result<()> {
        let Some((party, link)) = self.party() else { return Ok(()) };
        let asked = experiment.runtime.threads;
        let spots = formant_ranks::gather(link, &party.card, plan, asked)?;
        plan.threads = spots[0].threads;
        if let Some(party) = &mut self.party {
            party.spots = spots;
        }
        Ok(())
    }

    /// Says where the run is.
    pub(crate) fn settle(&mut self, run_dir: &Path, plan: &RunPlan) -> anyhow::Result<()> {
        let Some(party) = &mut self.party else { return Ok(()) };
        if let Some(link) = &party.link {
            formant_ranks::settle(link, run_dir, plan, &mut party.spots)?;
        }
        for (rank, spot) in party.spots.iter().enumerate().filter(|(_, spot)| !spot.sees) {
            note!(
                "note: states of {} stay on a disk of its own, not in {}, and are copied there with each checkpoint",
                spot.name(rank),
                run_dir.display()
            );
        }
        Ok(())
    }

    /// What there is beside this process, for the first line.
    pub(crate) fn introduction(&self) -> String {
        let spots = self.party.as_ref().map_or(&[][..], |party| &party.spots);
        if spots.len() < 2 {
            return String::new();
        }
        let mut hosts: Vec<&str> = spots.iter().map(|spot| spot.host.as_str()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let threads: usize = spots.iter().map(|spot| spot.threads).sum();
        let hosts = match hosts.len() {
            1 => "one host".to_owned(),
            n => format!("{n} hosts"),
        };
        format!(" at rank 0; {} ranks on {hosts} with {threads} threads in all", spots.len())
    }

    /// Says what is to be done when a rank is lost, while it can be said: MPI gives nobody the time for it then.
    pub(crate) fn warn(&self, run_dir: &Path) {
        if self.party.as_ref().is_some_and(|party| party.spots.len() > 1) {
            note!(
                "note: MPI ends the job when a rank is lost; `{} run --resume {}` goes on from the last checkpoint, with any number of ranks",
                program::name(),
                pasteable(run_dir)
            );
        }
    }

    /// Runs a plan, or goes on with it.
    pub(crate) fn extend(
        &mut self,
        plan: &RunPlan,
        run_dir: &Path,
        observer: &dyn Observer,
        stop: &AtomicBool,
    ) -> Result<Outcome, RuntimeError> {
        let Some((party, link)) = self.party() else {
            return sim::extend(plan, run_dir, observer, stop);
        };
        let spots = party.spots.clone();
        let outcome = std::thread::scope(|scope| {
            sim::extend_on(
                &mut Leader::new(plan, scope, link, spots),
                plan,
                run_dir,
                observer,
                stop,
            )
        });
        if let Err(error) = &outcome
            && link.is_broken()
        {
            // Ranks that are left wait for nothing any more, and this process ends with them: it has to be told now.
            print_error(&anyhow!(
                "{error}\nhint: go on from the last checkpoint, with any number of ranks: {} run --resume {}",
                program::name(),
                pasteable(run_dir)
            ));
            self.abort();
        }
        outcome
    }

    fn abort(&mut self) {
        if let Some(link) = self.party.as_mut().and_then(|party| party.link.take()) {
            link.abort();
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        let Some((_, link)) = self.party() else { return };
        if link.is_broken() {
            self.abort();
        } else if link.rank() == 0 {
            formant_ranks::dismiss(link);
        }
    }
}

/// Makes the plan that rank 0 has told, if this rank was not told another one.
fn prepare(call: &Call, args: &RunArgs, zoo: &Zoo) -> Result<RunPlan, String> {
    let table: toml::Table =
        call.experiment.parse().map_err(|error| format!("the experiment of rank 0: {error}"))?;
    let theirs = here(parse(&table, zoo)?, zoo)?;
    let files = [&args.experiment.experiment, &args.experiment.tuned];
    let is_elsewhere = files.into_iter().flatten().any(|file| !file.exists());
    // Its command line gives none where the file is on another host or in the run folder.
    let chosen = if args.resume.is_some() || is_elsewhere {
        theirs
    } else {
        let own = experiment(&args.experiment, &threads(args.threads), zoo);
        let own = here(own.map_err(|error| format!("its own command line: {error:#}"))?, zoo)?;
        if let Some(differs) = difference(&theirs, &own) {
            return Err(differs);
        }
        own
    };
    let planned = chosen.federation().and_then(|data| chosen.plan_among_others(data));
    planned.map_err(|error| error.to_string())
}

fn parse(table: &toml::Table, zoo: &Zoo) -> Result<Experiment, String> {
    Experiment::parse(table, &[], zoo).map_err(|error| error.to_string())
}

/// The same experiment on this host. Where its data are to be in a folder that is not here, they lie elsewhere: where
/// FORMANT_DATA says, or in the cache folder.
fn here(experiment: Experiment, zoo: &Zoo) -> Result<Experiment, String> {
    if experiment.data.origin.dir.as_ref().is_none_or(|dir| dir.exists()) {
        return Ok(experiment);
    }
    let mut table = experiment.to_table();
    if let Some(data) = table.get_mut("data").and_then(|data| data.as_table_mut()) {
        data.remove("dir");
    }
    parse(&table, zoo)
}

/// In what an experiment differs from that of rank 0. Where data lie may differ from host to host; what they are is
/// compared.
fn difference(theirs: &Experiment, own: &Experiment) -> Option<String> {
    let json = |experiment: &Experiment| {
        let mut json = serde_json::to_value(experiment.to_table()).ok()?;
        json.get_mut("data")?.as_object_mut()?.remove("dir");
        Some(json)
    };
    let (key, there, here) = first_difference(&json(theirs)?, &json(own)?)?;
    Some(format!(
        "its command line gives another experiment: {key} is {here} and not {there} as at rank 0; give all ranks the same"
    ))
}
