//! What is found, with its spread.

use super::Control;
use formant_numerics::{Agreement, BANDS, SpectrumKind};
use serde::Serialize;

/// A measure's mean and how far it goes: over clients two standard errors to either side, over draws of a control
/// from the lowest to the highest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// The mean.
    pub mean: Agreement,
    /// The lower end.
    pub low: Agreement,
    /// The upper end.
    pub high: Agreement,
}

/// What bands have in common, as it is or under a control: one entry a band, from low to high, and one for all.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Seen {
    /// Which.
    pub control: Control,
    /// Band by band.
    pub bands: Vec<Figures>,
    /// Over all frequencies.
    pub all: Figures,
}

/// The figures of one comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Side(pub Vec<Seen>);

impl Side {
    /// Under a control, if it was looked at.
    pub fn under(&self, control: Control) -> Option<&Seen> {
        self.0.iter().find(|seen| seen.control == control)
    }
}

/// The models of a method, in one kind of spectrum.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Looked {
    /// The method's label.
    pub method: String,
    /// The network's name.
    pub network: String,
    /// The data's name.
    pub dataset: String,
    /// Rounds that the models were trained for.
    pub round: u64,
    /// The experiment's seed.
    pub seed: u64,
    /// Personal models.
    pub clients: usize,
    /// Which spectrum.
    pub kind: SpectrumKind,
    /// The share of hidden units that alignment with the GM moves, mean over clients.
    pub moved: f64,
    /// `w_p` against `w_G`.
    pub weights: Side,
    /// `w_p − w_0` against `w_G − w_0`: without the start that all have in common.
    pub updates: Side,
    /// `w_p − w_0` of a client against that of the next.
    pub peers: Side,
}

impl Looked {
    /// A band in words: `0–1 %`.
    pub fn band(index: usize) -> String {
        let percent = |edge: f64| format!("{}", (100.0 * edge).round());
        format!("{}–{} %", percent(BANDS[index]), percent(BANDS[index + 1]))
    }
}

/// Every measure of several agreements, folded.
fn folded(all: &[Agreement], fold: impl Fn(&mut dyn Iterator<Item = f64>) -> f64) -> Agreement {
    let of = |measure: fn(&Agreement) -> f64| fold(&mut all.iter().map(measure));
    Agreement {
        cosine: of(|a| a.cosine),
        distance: of(|a| a.distance),
        magnitudes: of(|a| a.magnitudes),
        divergence: of(|a| a.divergence),
        energy: of(|a| a.energy),
    }
}

pub(super) fn mean(all: &[Agreement]) -> Agreement {
    folded(all, |values| values.sum::<f64>() / all.len() as f64)
}

impl Figures {
    /// Over clients.
    pub(super) fn of_clients(all: &[Agreement]) -> Self {
        let n = all.len() as f64;
        let reach = |sign: f64| {
            folded(all, |values| {
                let values: Vec<f64> = values.collect();
                let mean = values.iter().sum::<f64>() / n;
                let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
                mean + sign * 2.0 * (squares / (n - 1.0).max(1.0) / n).sqrt()
            })
        };
        Self { mean: mean(all), low: reach(-1.0), high: reach(1.0) }
    }

    /// Over draws of a control.
    pub(super) fn of_draws(all: &[Agreement]) -> Self {
        Self {
            mean: mean(all),
            low: folded(all, |values| values.fold(f64::INFINITY, f64::min)),
            high: folded(all, |values| values.fold(f64::NEG_INFINITY, f64::max)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_of_clients_or_of_draws() {
        let all = [1.0, 2.0, 3.0].map(|cosine| Agreement { cosine, ..Agreement::default() });
        let (clients, draws) = (Figures::of_clients(&all), Figures::of_draws(&all));
        assert_eq!((clients.mean.cosine, draws.mean.cosine), (2.0, 2.0));
        assert_eq!((draws.low.cosine, draws.high.cosine), (1.0, 3.0));
        // A standard deviation of 1 over three clients.
        assert!((clients.high.cosine - 2.0 - 2.0 / 3f64.sqrt()).abs() < 1e-12);
        assert_eq!(Looked::band(2), "3–10 %");
    }
}
