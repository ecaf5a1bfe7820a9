//! What is going on, in the few figures that stand above the report.

use formant_network::server::Status;
use formant_report::{MethodLog, RunLog};
use formant_runtime::event::Side;
use serde::Serialize;

/// Where a run stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Live {
    /// Counts up whenever the report has changed.
    pub version: u64,
    /// Whether it has begun or ended.
    pub state: State,
    /// The experiment's name.
    pub name: String,
    /// Whose log it is: `simulation`, `server` or `client`.
    pub side: Side,
    /// The method under way, as tables call it.
    pub method: Option<String>,
    /// Which of the methods that is, from 1, and of how many.
    pub methods: [usize; 2],
    /// Rounds that it has completed, and of how many.
    pub rounds: [usize; 2],
    /// Rounds of all methods that are done, as a share.
    pub done: f64,
    /// The latest figures of every method that has some, in percent.
    pub scores: Vec<Score>,
    /// Uploads that were refused.
    pub refused: usize,
    /// Client phases that failed.
    pub failed: usize,
    /// Seconds since the log has grown, when this was looked at.
    pub quiet: u64,
    /// What happened last, newest first.
    pub recent: Vec<String>,
    /// Who is there, if a server has said so.
    pub status: Option<Status>,
    /// Why something is not shown.
    pub problem: Option<String>,
}

/// Whether a run has begun or ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// There is no log yet.
    #[default]
    Waiting,
    /// It has begun and not ended; whether a program is at work on it, the log does not say.
    Begun,
    /// It is over.
    Over,
}

/// A method's latest figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Score {
    /// How tables call it.
    pub title: String,
    /// The generic model, in percent.
    pub gm: Option<f64>,
    /// The personal models, in percent.
    pub pm: Option<f64>,
}

impl Live {
    /// What a log says.
    pub(crate) fn of(log: &RunLog) -> Self {
        let (planned, methods) = (log.started.rounds, log.methods.len());
        let completed: Vec<usize> = log.methods.iter().map(MethodLog::completed).collect();
        let ended = |place: usize| log.methods[place].finish.is_some();
        let current = (0..methods).find(|place| !ended(*place)).or(methods.checked_sub(1));
        let done = (0..methods).map(|place| if ended(place) { planned } else { completed[place] });
        let percent = |figure: Option<f64>| figure.map(|figure| 100.0 * figure);
        let scores = log.methods.iter().filter_map(|method| {
            let (_, last) = method.last()?;
            let title = method.info.title.clone();
            Some(Score { title, gm: percent(last.gm), pm: percent(last.pm) })
        });
        Self {
            state: if log.seconds.is_some() { State::Over } else { State::Begun },
            name: log.started.name.clone(),
            side: log.started.side,
            method: current.map(|place| log.methods[place].info.title.clone()),
            methods: [current.map_or(0, |place| place + 1), methods],
            rounds: [current.map_or(0, |place| completed[place]), planned],
            done: done.sum::<usize>() as f64 / (planned * methods).max(1) as f64,
            scores: scores.collect(),
            refused: log.methods.iter().map(|method| method.refusals.len()).sum(),
            failed: log.methods.iter().map(|method| method.failures().count()).sum(),
            ..Self::default()
        }
    }
}
