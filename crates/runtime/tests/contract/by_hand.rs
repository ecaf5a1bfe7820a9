//! A federation on foot: the round as the paper has it, one client after the other, everything in
//! memory. What the simulator does with threads, files and checkpoints must come out the same.

use formant_methods::{Central, Loan, Local, Moment, Parcel, Value, WeightedAverage};
use formant_numerics::{Model, Patience, Rng, Stream, Worker};
use formant_runtime::{MethodPlan, PhasePlan, RunPlan};
use xxhash_rust::xxh3::Xxh3;

pub(crate) struct ByHand<'p> {
    plan: &'p RunPlan,
    method: &'p MethodPlan,
    worker: Box<dyn Worker>,
    round: usize,
    pub(crate) init: Model,
    pub(crate) server: Value,
    pub(crate) clients: Vec<Value>,
    /// What the last round's participants sent; the simulator's aggregation consumes it.
    pub(crate) uploads: Vec<Value>,
    /// What they had received.
    pub(crate) broadcast: Value,
}

impl<'p> ByHand<'p> {
    /// The first method of a plan, before its first round.
    pub(crate) fn new(plan: &'p RunPlan) -> Self {
        Self::of(plan, 0)
    }

    pub(crate) fn of(plan: &'p RunPlan, index: usize) -> Self {
        let method = &plan.methods[index];
        let init = plan.engine.network().init(&mut Rng::new(plan.seed, Stream::Init, 0, 0));
        let server = method.method.start_server(&init);
        let clients = plan.federation.clients.iter().map(|_| method.method.start_client(&init));
        Self {
            worker: plan.engine.worker(64),
            round: 0,
            clients: clients.collect(),
            broadcast: method.method.broadcast(&server).unwrap(),
            uploads: Vec::new(),
            init,
            server,
            plan,
            method,
        }
    }

    /// One round of all clients.
    pub(crate) fn round(&mut self) {
        let everybody: Vec<usize> = (0..self.clients.len()).collect();
        self.round_of(&everybody);
    }

    /// One round of some clients, who must stand in ascending order.
    pub(crate) fn round_of(&mut self, participants: &[usize]) {
        self.round += 1;
        let method = &*self.method.method;
        self.broadcast = method.broadcast(&self.server).unwrap();
        self.uploads.clear();
        for &client in participants {
            let upload = self.shared_phase(client);
            self.personal_phase(client, &upload);
            self.uploads.push(upload);
        }
        let mut parcels = participants.iter().zip(&self.uploads).map(|(&client, upload)| {
            let weight = self.plan.federation.clients[client].train.len() as f64;
            let message = method.decode_upload(&upload.encode()?)?;
            Ok(Parcel { client, weight, staleness: 0, message })
        });
        let rng = Rng::new(self.plan.seed, Stream::Server, self.round as u64, 0);
        let (network, clients) = (self.plan.engine.network(), self.clients.len());
        let combine = &WeightedAverage;
        let mut central = Central { network, rng, round: self.round, clients, combine };
        method.aggregate(&mut self.server, &mut parcels, &mut central).unwrap();
    }

    fn shared_phase(&mut self, client: usize) -> Value {
        let phase = (Stream::SharedPhase, self.method.shared);
        let mut local = local(self.plan, &mut *self.worker, (client, self.round), phase);
        let state = &mut self.clients[client];
        self.method.method.train_shared(state, &self.broadcast, &mut local).unwrap()
    }

    fn personal_phase(&mut self, client: usize, upload: &Value) {
        if self.plan.rules(self.method).personal.exists {
            let phase = (Stream::PersonalPhase, self.method.personal);
            let mut local = local(self.plan, &mut *self.worker, (client, self.round), phase);
            let state = &mut self.clients[client];
            let method = &self.method.method;
            method.train_personal(state, &self.broadcast, upload, &mut local).unwrap();
        }
    }

    /// The generic model.
    pub(crate) fn gm(&self) -> Model {
        self.method.method.global_model(&self.server).unwrap().unwrap().into_owned()
    }

    /// A client's personal model, beside what the server would send next.
    pub(crate) fn pm(&mut self, client: usize) -> Model {
        let method = &*self.method.method;
        let broadcast = method.broadcast(&self.server).unwrap();
        let phase = (Stream::Evaluation, self.method.personal);
        let round = self.round.max(1);
        let mut local = local(self.plan, &mut *self.worker, (client, round), phase);
        method.personal_model(&self.clients[client], &broadcast, &mut local).unwrap().into_owned()
    }

    /// All personal models, in client order.
    pub(crate) fn pms(&mut self) -> Vec<Model> {
        (0..self.clients.len()).map(|client| self.pm(client)).collect()
    }

    /// A client's last upload, for methods that send a model.
    pub(crate) fn sent_model(&self, client: usize) -> Model {
        model(&self.uploads[client])
    }

    /// As the simulator computes it.
    pub(crate) fn fingerprint(&self) -> String {
        let mut hash = Xxh3::new();
        for value in [&self.server].into_iter().chain(&self.clients) {
            hash.update(&value.encode().unwrap());
        }
        format!("{:032x}", hash.digest128())
    }
}

/// A message that is a model: its encoding is the model's.
pub(crate) fn model(message: &Value) -> Model {
    postcard::from_bytes(&message.encode().unwrap()).unwrap()
}

/// What the runtime lends to a phase.
pub(crate) fn local<'a>(
    plan: &'a RunPlan,
    worker: &'a mut dyn Worker,
    (client, round): (usize, usize),
    (stream, phase): (Stream, PhasePlan),
) -> Local<'a> {
    let data = &plan.federation;
    let rng = Rng::new(plan.seed, stream, round as u64, client as u64);
    let (samples, train) = (&*data.dataset.train, data.clients[client].train.as_slice());
    let (at, patience) = (Moment { round, rounds: plan.rounds }, Patience::Epochs);
    let loan = Loan { samples, train, rng, settings: phase.at(round), at, patience };
    Local::new(plan.engine.network(), worker, loan)
}
