//! A federation on foot: the round as the paper has it, one client after the other, everything in
//! memory. What the simulator does with threads, files and checkpoints must come out the same.

use formant_methods::{Central, Loan, Local, Moment, Parcel, Value};
use formant_numerics::{Model, Patience, Rng, Stream, Worker};
use formant_runtime::{MethodPlan, PhasePlan, RunPlan};
use xxhash_rust::xxh3::Xxh3;

/// One method of a plan, driven round by round.
///
/// ```
/// use formant_methods::Zoo;
/// use formant_testing::{ByHand, DENSE, plan};
///
/// // Ditto's personal models are beside the point of its generic one, which is FedAvg's.
/// let plan = plan(&Zoo::standard(), &["name = \"ditto\"", "name = \"fedavg\""], DENSE);
/// let (mut ditto, mut fedavg) = (ByHand::of(&plan, 0), ByHand::of(&plan, 1));
/// ditto.round();
/// fedavg.round();
/// assert_eq!(ditto.gm(), fedavg.gm());
/// assert_ne!(ditto.pm(0), ditto.gm());
/// ```
pub struct ByHand<'p> {
    plan: &'p RunPlan,
    method: &'p MethodPlan,
    worker: Box<dyn Worker>,
    round: usize,
    /// What every model began as.
    pub init: Model,
    /// The server's state.
    pub server: Value,
    /// The clients' states.
    pub clients: Vec<Value>,
    /// What the last round's participants sent; the simulator's aggregation consumes it.
    pub uploads: Vec<Value>,
    /// What they had received.
    pub broadcast: Value,
}

/// Whose turn it is, in which round, with which randomness and which optimiser.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The client.
    pub client: usize,
    /// The round, counted from 1.
    pub round: usize,
    /// Shared phase, personal phase or evaluation.
    pub stream: Stream,
    /// Epochs and optimiser.
    pub phase: PhasePlan,
}

impl<'p> ByHand<'p> {
    /// The first method of a plan, before its first round.
    pub fn new(plan: &'p RunPlan) -> Self {
        Self::of(plan, 0)
    }

    /// Any method of a plan, before its first round.
    pub fn of(plan: &'p RunPlan, index: usize) -> Self {
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
    pub fn round(&mut self) {
        let everybody: Vec<usize> = (0..self.clients.len()).collect();
        self.round_of(&everybody);
    }

    /// One round of some clients, who must stand in ascending order.
    pub fn round_of(&mut self, participants: &[usize]) {
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
            let samples = self.plan.federation.clients[client].train.len() as f64;
            let message = method.decode_upload(&upload.encode()?)?;
            Ok(Parcel { client, samples, share: 1.0, staleness: 0, message })
        });
        let rng = Rng::new(self.plan.seed, Stream::Server, self.round as u64, 0);
        let (network, clients) = (self.plan.engine.network(), self.clients.len());
        let reference = &*method.broadcast_vectors(&self.broadcast).unwrap();
        let combine = &*self.plan.combine;
        let mut central = Central { network, rng, round: self.round, clients, reference, combine };
        method.aggregate(&mut self.server, &mut parcels, &mut central).unwrap();
    }

    fn shared_phase(&mut self, client: usize) -> Value {
        let (stream, phase) = (Stream::SharedPhase, self.method.shared.clone());
        let turn = Turn { client, round: self.round, stream, phase };
        let mut local = lend(self.plan, &mut *self.worker, turn);
        let state = &mut self.clients[client];
        self.method.method.train_shared(state, &self.broadcast, &mut local).unwrap()
    }

    fn personal_phase(&mut self, client: usize, upload: &Value) {
        if self.plan.rules(self.method).personal.exists {
            let (stream, phase) = (Stream::PersonalPhase, self.method.personal.clone());
            let turn = Turn { client, round: self.round, stream, phase };
            let mut local = lend(self.plan, &mut *self.worker, turn);
            let state = &mut self.clients[client];
            let method = &self.method.method;
            method.train_personal(state, &self.broadcast, upload, &mut local).unwrap();
        }
    }

    /// The generic model.
    ///
    /// # Panics
    ///
    /// If the method has none.
    pub fn gm(&self) -> Model {
        self.method.method.global_model(&self.server).unwrap().unwrap().into_owned()
    }

    /// A client's personal model, beside what the server would send next.
    pub fn pm(&mut self, client: usize) -> Model {
        let method = &*self.method.method;
        let broadcast = method.broadcast(&self.server).unwrap();
        let (stream, phase) = (Stream::Evaluation, self.method.personal.clone());
        let turn = Turn { client, round: self.round.max(1), stream, phase };
        let mut local = lend(self.plan, &mut *self.worker, turn);
        method.personal_model(&self.clients[client], &broadcast, &mut local).unwrap().into_owned()
    }

    /// All personal models, in client order.
    pub fn pms(&mut self) -> Vec<Model> {
        (0..self.clients.len()).map(|client| self.pm(client)).collect()
    }

    /// The last upload at some place among the participants, for methods that send a model: then the
    /// upload's encoding is the model's.
    pub fn sent_model(&self, place: usize) -> Model {
        postcard::from_bytes(&self.uploads[place].encode().unwrap()).unwrap()
    }

    /// As the simulator computes it.
    pub fn fingerprint(&self) -> String {
        let mut hash = Xxh3::new();
        for value in [&self.server].into_iter().chain(&self.clients) {
            hash.update(&value.encode().unwrap());
        }
        format!("{:032x}", hash.digest128())
    }
}

/// What the runtime lends to a phase.
pub fn lend<'a>(plan: &'a RunPlan, worker: &'a mut dyn Worker, turn: Turn) -> Local<'a> {
    let Turn { client, round, stream, phase } = turn;
    let data = &plan.federation;
    let rng = Rng::new(plan.seed, stream, round as u64, client as u64);
    let (samples, train) = (&*data.dataset.train, data.clients[client].train.as_slice());
    let (at, patience) = (Moment { round, rounds: plan.rounds }, Patience::Epochs);
    let loan = Loan { samples, train, rng, settings: phase.at(at), at, patience };
    Local::new(plan.engine.network(), worker, loan)
}
