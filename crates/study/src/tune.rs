//! Hyper-parameters chosen on the validation split, with the same budget for every method and in every cell.
//!
//! A search is one method in one cell: a walk over a lattice ([`search`]) until the best setting has worse neighbours on
//! all sides, or the budget is spent. Scores are kept, each search in a folder of its own, so the same request goes on where
//! it stopped, and several processes can share the searches.

mod rules;
mod search;
mod space;
mod winners;

pub(crate) use rules::Rules;
pub use rules::TuneRequest;
pub use search::{Open, Why};
pub use winners::{Tuned, Winner};

use crate::divided::SharedData;
use crate::reproduce::alone;
use crate::results::Results;
use crate::sweep::on_validation;
use crate::{Draft, Job, Observer, Rank, Ranked, Scale, Score, Shard, StudyError};
use formant_experiment::Override;
use formant_methods::Zoo;
use formant_runtime::{Parts, RuntimeError, files};
use search::{Found, Tried};
use serde_json::Value as Json;
use space::{Point, Space};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Searches for the settings of several methods in several cells.
pub struct Tuning {
    draft: Draft,
    zoo: Zoo,
    searches: Vec<Search>,
    /// Laid over every cell: what makes the experiment one that is chosen on.
    changes: Vec<Override>,
    /// Laid over everything.
    last: Vec<Override>,
    budget: usize,
    seeds: Vec<i64>,
    by: Rank,
    scale: Option<Scale>,
    remarks: Vec<String>,
    data: SharedData,
}

/// One method in one cell.
#[derive(Debug, Clone)]
pub struct Search {
    /// The method's label.
    pub method: String,
    /// The cell, by key.
    pub cell: BTreeMap<String, Json>,
    changes: Vec<Override>,
    space: Space,
}

/// How a tuning ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    /// What was found, in the order of the searches.
    pub tuned: Tuned,
    /// Searches that other processes have under way.
    pub elsewhere: usize,
    /// Searches that are not at their end: they were interrupted, or have yet to be run.
    pub unfinished: usize,
}

impl Tuning {
    /// All searches.
    pub fn searches(&self) -> &[Search] {
        &self.searches
    }

    /// The searches of a shard, by their places.
    pub fn shard(&self, shard: Shard) -> Vec<usize> {
        shard.of(&vec![1.0; self.searches.len()])
    }

    /// What whoever reads the results should know.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Settings that each method may try in each cell.
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// Runs of each setting.
    pub fn seeds(&self) -> &[i64] {
        &self.seeds
    }

    /// The work of some searches, if each spends its whole budget.
    pub fn parts(&self, places: &[usize]) -> Parts {
        Parts::equal(places.len() * self.budget * self.seeds.len())
    }

    /// Runs some searches, one after the other. What a folder holds is not run again.
    pub fn run(
        &mut self,
        folder: &Path,
        places: &[usize],
        observer: &dyn Observer,
        stop: &AtomicBool,
    ) -> Result<Ending, StudyError> {
        let mut ending = Ending::none();
        for (done, place) in places.iter().enumerate() {
            let own = folder.join(self.searches[*place].folder());
            let results = match Results::open(&own) {
                Err(StudyError::Runtime(RuntimeError::Locked { .. })) => {
                    ending.elsewhere += 1;
                    observer.jobs_spared(self.budget * self.seeds.len());
                    continue;
                }
                opened => opened?,
            };
            let mut data = std::mem::take(&mut self.data);
            let mut desk = Desk { results, own, data: &mut data, observer, stop, runs: 0 };
            let found = self.search(*place, &mut |tuning, search, space, point| {
                tuning.evaluate(search, space, point, &mut desk)
            });
            let runs = desk.runs;
            self.data = data;
            let Some(winner) = found? else {
                ending.unfinished = places.len() - done;
                return Ok(ending);
            };
            observer.jobs_spared((self.budget * self.seeds.len()).saturating_sub(runs));
            observer.search_done(&winner);
            ending.tuned.winners.push(winner);
        }
        Ok(ending)
    }

    /// What a folder has of some searches, without running anything.
    pub fn collect(&self, folder: &Path, places: &[usize]) -> Result<Ending, StudyError> {
        let mut ending = Ending::none();
        for place in places {
            let known = Results::peek(&folder.join(self.searches[*place].folder()))?;
            let found = self.search(*place, &mut |tuning, search, space, point| {
                tuning.find(search, space, point, &known)
            })?;
            match found {
                Some(winner) => ending.tuned.winners.push(winner),
                None => ending.unfinished += 1,
            }
        }
        Ok(ending)
    }

    /// One search, its settings evaluated by somebody else; none if that was interrupted.
    fn search(
        &self,
        place: usize,
        evaluate: &mut Evaluate<'_>,
    ) -> Result<Option<Winner>, StudyError> {
        let search = &self.searches[place];
        let found = search::search(
            search.space.clone(),
            self.budget,
            Ranked::beats,
            &mut |space, point| evaluate(self, search, space, point),
        )?;
        found.map(|found| self.winner(search, found)).transpose()
    }

    /// A setting with every seed.
    fn evaluate(
        &self,
        search: &Search,
        space: &Space,
        point: &Point,
        desk: &mut Desk<'_>,
    ) -> Result<Tried<Ranked>, StudyError> {
        let Some(jobs) = self.jobs(search, space, point) else { return Ok(Tried::Refused) };
        let mut scores = Vec::new();
        for job in &jobs {
            desk.observer.job_started(job);
            let keys = job.keys()?;
            let of_job = if let Some(known) = desk.results.all(&keys) {
                known
            } else {
                match job.run(&desk.own, desk.data, desk.observer, desk.stop)? {
                    Some(fresh) => fresh,
                    None => return Ok(Tried::Interrupted),
                }
            };
            desk.results.keep(&of_job)?;
            scores.extend(of_job);
            desk.runs += 1;
            desk.observer.job_done(job);
        }
        Ok(worth(&scores, self.by))
    }

    /// A setting whose runs are all there.
    fn find(
        &self,
        search: &Search,
        space: &Space,
        point: &Point,
        known: &std::collections::HashMap<String, Score>,
    ) -> Result<Tried<Ranked>, StudyError> {
        let Some(jobs) = self.jobs(search, space, point) else { return Ok(Tried::Refused) };
        let mut scores = Vec::new();
        for job in &jobs {
            for key in job.keys()? {
                match known.get(&key) {
                    Some(score) => scores.push(score.clone()),
                    None => return Ok(Tried::Interrupted),
                }
            }
        }
        Ok(worth(&scores, self.by))
    }

    /// The runs of a setting; none if there is no such setting.
    fn jobs(&self, search: &Search, space: &Space, point: &Point) -> Option<Vec<Job>> {
        let with_seed = |seed: &i64| self.job(search, space, point, *seed).ok();
        self.seeds.iter().map(with_seed).collect()
    }

    fn job(
        &self,
        search: &Search,
        space: &Space,
        point: &Point,
        seed: i64,
    ) -> Result<Job, StudyError> {
        let chosen = changes(&search.method, space, point);
        let experiment = |chosen: &[Override]| {
            let cell = [&search.changes[..], &self.changes, chosen].concat();
            let whole = self.draft.experiment(&on_validation(&cell, seed, &self.last))?;
            alone(&whole, Some(&search.method), &self.zoo)
        };
        // A strength of 0 may make it another method, which is a result like any other.
        let experiment = experiment(&chosen).or_else(|error| {
            let allowed = allow_degenerate(&search.method);
            experiment(&[&chosen[..], &[allowed]].concat()).map_err(|_| error)
        })?;
        let setting = space.shown(point);
        let setting = format!("{} {setting}", search.name()).trim_end().to_owned();
        Ok(Job { setting, seed, experiment })
    }

    fn winner(&self, search: &Search, found: Found<Ranked>) -> Result<Winner, StudyError> {
        let Found { point, worth, settings, open, refined } = found;
        let seed = self.seeds.first().copied().unwrap_or_default();
        let job = self.job(search, &search.space, &point, seed)?;
        let mut set = search.space.table(&point);
        let built = job.experiment.methods.first().map(|setting| &setting.method);
        if built.is_some_and(|built| built.degenerate.is_some()) {
            set.insert(formant_methods::ALLOW_DEGENERATE.name.into(), true.into());
        }
        Ok(Winner {
            method: search.method.clone(),
            cell: search.cell.clone(),
            set,
            score: worth.score,
            gm: worth.gm,
            pm: worth.pm,
            failed: worth.failed > 0,
            by: self.by,
            budget: self.budget,
            settings,
            seeds: self.seeds.clone(),
            refined,
            open,
            scale: self.scale,
        })
    }
}

type Evaluate<'e> =
    dyn FnMut(&Tuning, &Search, &Space, &Point) -> Result<Tried<Ranked>, StudyError> + 'e;

/// What a search works with.
struct Desk<'d> {
    results: Results,
    own: PathBuf,
    data: &'d mut SharedData,
    observer: &'d dyn Observer,
    stop: &'d AtomicBool,
    runs: usize,
}

fn worth(scores: &[Score], by: Rank) -> Tried<Ranked> {
    Tried::Worth(Ranked::over(&scores.iter().collect::<Vec<_>>(), by))
}

/// A setting of a method as changes to an experiment.
fn changes(method: &str, space: &Space, point: &Point) -> Vec<Override> {
    let change = |(axis, value): (&space::Axis, &toml::Value)| {
        let below = axis.path.iter().map(String::as_str);
        let path: Vec<&str> = ["method", method].into_iter().chain(below).collect();
        Override::new(&path, value.clone())
    };
    space.0.iter().zip(point).map(change).collect()
}

fn allow_degenerate(method: &str) -> Override {
    Override::new(&["method", method, formant_methods::ALLOW_DEGENERATE.name], true)
}

impl Search {
    /// Cell and method in words.
    pub fn name(&self) -> String {
        format!("{} {}", winners::cell_name(&self.cell), self.method).trim_start().to_owned()
    }

    /// The folder of its scores: readable, and different for every search.
    fn folder(&self) -> String {
        let name = self.name();
        let plain = |c: char| if c.is_alphanumeric() || "=.-".contains(c) { c } else { '_' };
        let check = files::fingerprint(name.as_bytes());
        format!("{}-{}", name.chars().map(plain).collect::<String>(), &check[..check.len().min(6)])
    }
}

impl Ending {
    fn none() -> Self {
        Self { tuned: Tuned::default(), elsewhere: 0, unfinished: 0 }
    }
}
