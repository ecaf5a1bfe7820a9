//! FedDyn.
//!
//! Acar, Zhao, Matas, Mattina, Whatmough, Saligrama: *Federated Learning Based on Dynamic
//! Regularization*, ICLR 2021.
//!
//! - client: `θ_i ← E_G epochs of SGD on f_i(θ) − ⟨g_i, θ⟩ + (α/2) ‖θ − w‖²` from `w`, then
//!   `g_i ← g_i − α(θ_i − w)`
//! - server, `P` the participants and `m` *all* clients: `h ← h − (α/m) Σ_{k∈P} (θ_k − w)`,
//!   `w ← mean_P θ_k − h/α`
//!
//! GM = `mean_P θ_k`, which the published results score; `w`, shifted by `h/α`, is what clients
//! receive and is reported beside it. There is no personal model: tables score the GM on the local
//! test sets, in parentheses.
//!
//! Where all local problems are solved, `g_i = ∇f_i(θ_i)`; a fixed point has `θ_i = w` for all, and
//! then `Σ ∇f_i(w) = 0`: the optimum of the unweighted mean of the local objectives, which is what
//! FedDyn minimises. FedAvg's fixed point depends on the epochs.
//!
//! For synchronous rounds: a client whose upload is refused has moved its `g_i` already, and then `h`
//! is no longer the mean of all `g_i`.
//!
//! Departures: gradients are clipped at `clip`, as in the published code. Batch-norm statistics are
//! averaged and not shifted.

use crate::schema::{Default, Key, Kind};
use crate::{Central, Entry, Equally, Hints, Local, Mean, Method, MethodError, Moment, State};
use formant_numerics::{Model, Term, Weighted, floats};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// FedDyn's hyper-parameters.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FedDyn {
    /// `α`: strength of the regularisation.
    pub alpha: f32,
    /// Largest norm of a gradient.
    pub clip: f32,
}

const KEYS: &[Key] = &[
    Key {
        name: "alpha",
        symbol: "α",
        kind: Kind::Number { min: 1e-6, max: 1e6 },
        default: Default::Number(0.01),
        help: "strength of the dynamic regularisation",
    },
    Key {
        name: "clip",
        symbol: "",
        kind: Kind::Above { min: 0.0, max: 1e9 },
        default: Default::Number(10.0),
        help: "largest norm of a gradient, unless train.clip is set",
    },
];

/// FedDyn in the zoo.
pub(crate) const ENTRY: Entry = Entry {
    name: "feddyn",
    title: "FedDyn",
    summary: "dynamic regularisation: local optima are made to agree with the global one",
    citation: "Acar et al., ICLR 2021",
    keys: KEYS,
    ..Entry::of::<FedDyn>(include_str!("feddyn.rs"))
};

/// What a client knows of its own gradient.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Slope {
    /// `g_i`.
    #[serde(with = "floats")]
    pub g: Vec<f32>,
}

impl State for Slope {
    fn start(init: &Model) -> Self {
        Self { g: vec![0.0; init.parameters.len()] }
    }
}

/// Both candidates for the generic model, and what tells them apart.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Shifted {
    /// `w`, which clients receive.
    pub w: Model,
    /// `mean_P θ_k`.
    pub mean: Model,
    /// `h`.
    #[serde(with = "floats")]
    pub h: Vec<f32>,
}

impl State for Shifted {
    fn start(init: &Model) -> Self {
        Self { w: init.clone(), mean: init.clone(), h: vec![0.0; init.parameters.len()] }
    }
}

impl Method for FedDyn {
    type Server = Shifted;
    type Client = Slope;
    type Broadcast = Model;
    type Upload = Model;
    // Every participant counts the same, however many samples it has.
    type Received<'a> = Mean<Model, Equally>;

    fn broadcast(&self, server: &Shifted) -> Model {
        server.w.clone()
    }

    fn train_shared(
        &self,
        client: &mut Slope,
        got: &Model,
        local: &mut Local<'_>,
    ) -> Result<Model, MethodError> {
        local.clip_unless_told(self.clip);
        let mut theta = got.clone();
        local.sgd(&mut theta, &self.regularisation(client, got))?;
        self.follow(client, &theta, got);
        Ok(theta)
    }

    fn aggregate(
        &self,
        server: &mut Shifted,
        received: Mean<Model, Equally>,
        central: &mut Central<'_>,
    ) -> Result<(), MethodError> {
        let Shifted { w, mean, h } = server;
        let share = received.uploads as f64 / central.clients as f64;
        *mean = received.message;
        let alpha = f64::from(self.alpha);
        for ((h, w), mean) in h.iter_mut().zip(&mut w.parameters).zip(&mean.parameters) {
            let (mean, moved) = (f64::from(*mean), f64::from(*mean) - f64::from(*w));
            let shift = f64::from(*h) - alpha * share * moved;
            *h = shift as f32;
            *w = (mean - shift / alpha) as f32;
        }
        w.buffers.clone_from(&mean.buffers);
        Ok(())
    }

    fn global_model<'a>(&self, server: &'a Shifted) -> Option<Cow<'a, Model>> {
        Some(Cow::Borrowed(&server.mean))
    }

    fn other_global_models<'a>(&self, server: &'a Shifted) -> Vec<(&'static str, Cow<'a, Model>)> {
        vec![("shifted w", Cow::Borrowed(&server.w))]
    }

    fn personal_model<'a>(
        &self,
        _client: &'a Slope,
        got: &'a Model,
        _local: &mut Local<'_>,
    ) -> Result<Cow<'a, Model>, MethodError> {
        Ok(Cow::Borrowed(got))
    }

    /// `h` counts every client's drift once a round.
    fn hints(&self, _at: Moment) -> Hints {
        Hints { stale_uploads: false, ..Hints::default() }
    }
}

impl FedDyn {
    /// `−⟨g_i, θ⟩ + (α/2) ‖θ − w‖²`.
    fn regularisation<'a>(&self, client: &'a Slope, got: &'a Model) -> [Weighted<'a>; 2] {
        let slope = -1.0 * Term::Linear { direction: &client.g };
        [slope, self.alpha * Term::Proximal { anchor: &got.parameters }]
    }

    /// `g_i ← g_i − α(θ_i − w)`.
    fn follow(&self, client: &mut Slope, theta: &Model, got: &Model) {
        for ((g, theta), w) in client.g.iter_mut().zip(&theta.parameters).zip(&got.parameters) {
            *g -= self.alpha * (theta - w);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Receive, Upload, Uploads, WeightedAverage};
    use formant_numerics::{NetworkSpec, Rng, Shape, Stream, Weight};

    /// `f_i(θ) = ½ a_i (θ − c_i)²`: a shallow bowl around −1 and a steep one around 1.
    const BOWLS: [(f32, f32); 2] = [(1.0, -1.0), (10.0, 1.0)];
    /// Where `Σ a_i (θ − c_i) = 0`: `(−1 + 10) / 11`.
    const OPTIMUM: f32 = 9.0 / 11.0;

    /// Descends a bowl and some terms to the bottom.
    fn settled((a, c): (f32, f32), from: &Model, terms: &[Weighted<'_>]) -> Model {
        let mut theta = from.clone();
        for _ in 0..500 {
            let mut gradient = [a * (theta.parameters[0] - c)];
            for Weighted { weight, term } in terms {
                let Weight::Factor(factor) = weight else { panic!("{weight:?}") };
                gradient[0] += factor
                    * match term {
                        Term::Proximal { anchor } => theta.parameters[0] - anchor[0],
                        Term::Linear { direction } => direction[0],
                        other => panic!("{other:?}"),
                    };
            }
            theta.parameters[0] -= 0.05 * gradient[0];
        }
        theta
    }

    /// Rounds in which the clients of `present(round)` take part; gives the server at the end.
    fn run(rounds: usize, present: impl Fn(usize) -> Vec<usize>) -> Shifted {
        let method = FedDyn { alpha: 0.5, clip: 10.0 };
        let init = Model { parameters: vec![0.3], buffers: vec![] };
        let mut server = Shifted::start(&init);
        let mut clients = BOWLS.map(|_| Slope::start(&init));
        let network = NetworkSpec::named("logistic").build(Shape::new(1, 1, 1), 2).unwrap();
        for round in 1..=rounds {
            let got = method.broadcast(&server);
            let sent: Vec<(usize, Model)> = present(round)
                .into_iter()
                .map(|i| {
                    let terms = method.regularisation(&clients[i], &got);
                    let theta = settled(BOWLS[i], &got, &terms);
                    method.follow(&mut clients[i], &theta, &got);
                    (i, theta)
                })
                .collect();
            let mut uploads = sent.into_iter().map(|(client, message)| {
                // However many samples: FedDyn's clients are equals.
                let samples = 1.0 + 7.0 * client as f64;
                Ok(Upload { client, samples, share: 1.0, staleness: 0, message })
            });
            let rng = Rng::new(1, Stream::Test, 0, 0);
            let combine = &WeightedAverage;
            let mut central =
                Central { network: &*network, rng, round, clients: 2, reference: &[], combine };
            let received = Mean::receive(Uploads::new(&mut uploads), &central).unwrap();
            method.aggregate(&mut server, received, &mut central).unwrap();
        }
        server
    }

    #[test]
    fn it_reaches_the_optimum_of_unlike_quadratics_where_fedavg_stalls() {
        let server = run(60, |_| vec![0, 1]);
        for model in [&server.mean, &server.w] {
            assert!((model.parameters[0] - OPTIMUM).abs() < 1e-4, "{model:?}");
        }
        // FedAvg's clients go all the way to their own bottoms, and their mean never moves again.
        let bottoms = BOWLS.map(|bowl| settled(bowl, &server.w, &[]).parameters[0]);
        let stalled = f32::midpoint(bottoms[0], bottoms[1]);
        assert!((stalled - OPTIMUM).abs() > 0.5, "{stalled}");
    }

    #[test]
    fn with_half_of_the_clients_a_round_it_gets_there_too() {
        let server = run(300, |round| vec![round % 2]);
        assert!((server.w.parameters[0] - OPTIMUM).abs() < 1e-2, "{:?}", server.w);
    }

    #[test]
    fn a_slope_that_is_followed_ends_as_the_gradient() {
        let method = FedDyn { alpha: 0.5, clip: 10.0 };
        let mut client = Slope { g: vec![0.25] };
        let (w, theta) = ([2.0f32], [3.0f32]);
        let model = |x: [f32; 1]| Model { parameters: x.to_vec(), buffers: vec![] };
        method.follow(&mut client, &model(theta), &model(w));
        // 0.25 − 0.5 · (3 − 2)
        assert_eq!(client.g, [-0.25]);
    }
}
