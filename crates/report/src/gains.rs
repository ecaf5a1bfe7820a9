//! Who gains by a method: every client's personal model against training alone, and against the generic
//! model on the same samples.

use serde::Serialize;

use crate::{MethodLog, RunLog};

/// The method whose clients train alone, by its name in the zoo.
pub(crate) const ALONE: &str = "local";

/// What a method's clients gain. A gain is a difference of scores, from -1 to 1; more is better, whatever
/// the metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gains {
    /// The method's label.
    pub label: String,
    /// Whether it trains personal models; if not, its generic model is compared in their place.
    pub personal: bool,
    /// Whether it trains a generic model; if not, the averaged personal model stands in for it.
    pub generic: bool,
    /// Against training alone, at the last evaluation of both; absent without a method `local`, and for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_local: Option<Gained>,
    /// Against the generic model on the same client's samples; absent without personal models, before the
    /// method has ended, and if the run's first metric is not accuracy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_gm: Option<Gained>,
}

/// Two models of every client beside each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gained {
    /// The clients of whom both are scored, in client order.
    pub clients: Vec<ClientGain>,
    /// Mean over these clients.
    pub mean: f64,
    /// Mean over the tenth that gains least.
    pub worst_decile: f64,
    /// Clients that are worse off.
    pub worse: usize,
    /// Their share.
    pub worse_share: f64,
}

/// One client's gain.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClientGain {
    /// Who it is.
    pub client: usize,
    /// Its personal model's score.
    pub pm: f64,
    /// What that is compared with.
    pub other: f64,
    /// How much better the personal model is.
    pub gain: f64,
}

/// What every method's clients gain, in the run's order.
///
/// If several methods are called `local`, the first one counts as training alone.
pub fn gains(log: &RunLog) -> Vec<Gains> {
    let metric = log.started.metrics.first();
    let sign = if metric.less_is_better() { -1.0 } else { 1.0 };
    let alone = alone(log);
    let scores = alone.and_then(MethodLog::last).map(|(_, last)| last.per_client.as_slice());
    let of = |method: &MethodLog| {
        let is_alone = alone.is_some_and(|alone| alone.info.label == method.info.label);
        let last = method.last().map(|(_, last)| last.per_client.as_slice());
        let detail =
            method.detail.as_ref().filter(|_| method.info.personal && metric.is_accuracy());
        Gains {
            label: method.info.label.clone(),
            personal: method.info.personal,
            generic: method.info.generic,
            over_local: scores
                .filter(|_| !is_alone)
                .and_then(|scores| Gained::new(last?, scores, sign)),
            over_gm: detail.and_then(|detail| {
                let then = method.evaluations.get(&detail.round)?;
                Gained::new(&then.per_client, &detail.gm_on_clients, sign)
            }),
        }
    };
    log.methods.iter().map(of).collect()
}

/// The run's method in which clients train alone.
pub(crate) fn alone(log: &RunLog) -> Option<&MethodLog> {
    log.methods.iter().find(|method| method.info.name == ALONE)
}

impl Gained {
    fn new(pm: &[Option<f64>], other: &[Option<f64>], sign: f64) -> Option<Self> {
        let both = pm.iter().zip(other).enumerate();
        let clients: Vec<ClientGain> = both
            .filter_map(|(client, (pm, other))| {
                let (pm, other) = ((*pm)?, (*other)?);
                let gain = sign * (pm - other);
                gain.is_finite().then_some(ClientGain { client, pm, other, gain })
            })
            .collect();
        if clients.is_empty() {
            return None;
        }
        let mut sorted: Vec<f64> = clients.iter().map(|client| client.gain).collect();
        sorted.sort_by(f64::total_cmp);
        let mean = |gains: &[f64]| gains.iter().sum::<f64>() / gains.len() as f64;
        // Both are shares of the same samples; what lies below this is rounding.
        let worse = sorted.iter().filter(|&&gain| gain < -1e-9).count();
        Some(Self {
            mean: mean(&sorted),
            worst_decile: mean(&sorted[..sorted.len().div_ceil(10)]),
            worse,
            worse_share: worse as f64 / sorted.len() as f64,
            clients,
        })
    }

    /// The clients from the one that gains most to the one that gains least.
    pub fn ranked(&self) -> Vec<ClientGain> {
        let mut ranked = self.clients.clone();
        ranked.sort_by(|a, b| b.gain.total_cmp(&a.gain).then(a.client.cmp(&b.client)));
        ranked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_both_scores_is_not_compared() {
        let pm = [Some(0.9), None, Some(0.5), Some(0.7)];
        let other = [Some(0.8), Some(0.1), Some(0.6), None, Some(1.0)];
        let found = Gained::new(&pm, &other, 1.0).unwrap();
        let ids: Vec<usize> = found.clients.iter().map(|client| client.client).collect();
        assert_eq!(ids, [0, 2]);
        assert_eq!((found.worse, found.worse_share), (1, 0.5));
        assert!(found.mean.abs() < 1e-12 && (found.worst_decile + 0.1).abs() < 1e-12);
        assert_eq!(found.ranked()[0].client, 0);
        assert!(Gained::new(&[None], &other, 1.0).is_none());
    }

    #[test]
    fn of_an_error_less_is_a_gain() {
        let found = Gained::new(&[Some(0.1)], &[Some(0.3)], -1.0).unwrap();
        assert!((found.mean - 0.2).abs() < 1e-12);
        assert_eq!(found.worse, 0);
    }
}
