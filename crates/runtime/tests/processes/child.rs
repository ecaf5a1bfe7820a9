//! One client in a process of its own. It ends when its standard input does, as it does when the driver
//! is gone.

use crate::pipe::{self, Own, Reply, Request};
use crate::suite;
use formant_methods::Value;
use formant_numerics::{EVALUATION_BATCH, Model, Pulse};
use formant_runtime::executor::client::Client;
use formant_runtime::executor::newcomer::Newcomer;
use formant_runtime::executor::{Adapting, GlobalSet, Step};
use formant_runtime::{Hand, MethodPlan, RunPlan, RuntimeError, Stored};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

pub(crate) fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("a client's process: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let Some(Request::Hello { client: id, experiment }) = pipe::read(&mut input)? else {
        return Err(io::Error::other("nobody said hello"));
    };
    let plan = suite::plan_of(&experiment);
    let batch =
        plan.methods.iter().map(|m| plan.largest_batch(m)).fold(EVALUATION_BATCH, usize::max);
    let hand = Hand::new(&*plan.engine, batch);
    let mut process = Process {
        plan: &plan,
        id,
        hand,
        method: 0,
        folder: PathBuf::new(),
        state: None,
        sent: None,
    };
    pipe::write(&mut output, &Reply::Ready)?;
    while let Some(request) = pipe::read(&mut input)? {
        let reply =
            process.answer(request).unwrap_or_else(|error| Reply::Failed(error.to_string()));
        pipe::write(&mut output, &reply)?;
    }
    Ok(())
}

struct Process<'p> {
    plan: &'p RunPlan,
    id: usize,
    hand: Hand,
    method: usize,
    folder: PathBuf,
    /// None before the client has taken part.
    state: Option<Value>,
    /// The newest upload.
    sent: Option<Vec<u8>>,
}

impl<'p> Process<'p> {
    fn method(&self) -> &'p MethodPlan {
        &self.plan.methods[self.method]
    }

    fn client(&self) -> Client<'p> {
        // The driver stops between clients.
        Client { plan: self.plan, method: self.method(), id: self.id, pulse: Pulse::NONE }
    }

    /// The state, or the one that it would begin with. It has to be put back if it changes.
    fn take_state(&mut self) -> (Value, bool) {
        match self.state.take() {
            Some(state) => (state, true),
            None => (self.method().method.start_client(&self.plan.init()), false),
        }
    }

    fn answer(&mut self, request: Request) -> Result<Reply, RuntimeError> {
        let client = self.client();
        Ok(match request {
            Request::Hello { .. } => Reply::Failed("we have met".into()),
            Request::Begin { method, folder, state, sent } => {
                (self.method, self.folder) = (method, folder);
                let method = &*self.method().method;
                let state = state.map(|stored| read(&self.folder, &stored)).transpose()?;
                self.state = state.map(|bytes| method.decode_client(&bytes)).transpose()?;
                self.sent = sent.map(|stored| read(&self.folder, &stored)).transpose()?;
                Reply::Ready
            }
            Request::Work { steps, broadcasts } => self.work(&steps, broadcasts)?,
            Request::Look { round, broadcast, send, folder, answers } => {
                let broadcast = client.method.method.decode_broadcast(&broadcast)?;
                let (state, took_part) = self.take_state();
                let hand = &mut self.hand;
                let reply = client.with_personal_model(
                    round,
                    &state,
                    &broadcast,
                    hand,
                    |served, hand| {
                        let (model, choice) = (served.model, served.choice);
                        let own = own(client, model, answers, hand)?;
                        let written = match (&folder, model) {
                            (Some(folder), Some(model)) => {
                                client.write_model(round, model, folder)?
                            }
                            _ => None,
                        };
                        let model = served.trained.filter(|_| send).cloned();
                        Ok::<_, RuntimeError>(Reply::Looked { own, model, written, choice })
                    },
                )??;
                self.state = took_part.then_some(state);
                reply
            }
            Request::ScoreOwn(model, answers) => {
                Reply::Own(own(client, Some(&model), answers, &mut self.hand)?)
            }
            Request::ScorePart(part, model, answers) => {
                let set = GlobalSet::of(self.plan);
                Reply::Part(set.score_part(part, &model, answers, &mut self.hand, Pulse::NONE)?)
            }
            Request::Adapt { method, place, model, broadcast, epochs } => {
                let got =
                    broadcast.map(|got| self.plan.methods[method].method.decode_broadcast(&got));
                let (got, done) = (got.transpose()?, &|| {});
                let (model, broadcast, pulse) = (&model, got.as_ref(), Pulse::NONE);
                let asked = Adapting { method, model, broadcast, epochs, keep: false, done, pulse };
                let newcomer = Newcomer::new(self.plan, method, place);
                Reply::Adapted(newcomer.adapt(&asked, &mut self.hand)?)
            }
            Request::State => {
                let (state, took_part) = self.take_state();
                let bytes = state.encode()?;
                self.state = took_part.then_some(state);
                Reply::State(bytes)
            }
            Request::Persist => {
                let state = self.state.as_ref().map(Value::encode).transpose()?;
                let state = state.map(|bytes| self.write("state", &bytes)).transpose()?;
                let sent = self.sent.as_ref().filter(|_| self.plan.keeps_sent(client.method));
                let sent = sent.map(|bytes| self.write("sent", bytes)).transpose()?;
                Reply::Held { state, sent }
            }
        })
    }

    fn work(
        &mut self,
        steps: &[Step],
        broadcasts: BTreeMap<u64, Vec<u8>>,
    ) -> Result<Reply, RuntimeError> {
        let (client, method) = (self.client(), &*self.method().method);
        let mut got = BTreeMap::new();
        for (round, bytes) in broadcasts {
            got.insert(round, Arc::new(method.decode_broadcast(&bytes)?));
        }
        let (mut state, took_part) = self.take_state();
        let sent = || Ok(self.sent.as_ref().map(|sent| method.decode_upload(sent)).transpose()?);
        let done = client.work(steps, &got, &mut state, &sent, &mut self.hand)?;
        self.state = (took_part || done.changed).then_some(state);
        let upload = done.upload.map(|upload| upload.encode()).transpose()?;
        if upload.is_some() {
            self.sent.clone_from(&upload);
        }
        Ok(Reply::Worked { record: done.record, upload })
    }

    /// Writes a value under a name that says what is in it: what a checkpoint names is never
    /// overwritten by something else.
    fn write(&self, kind: &str, bytes: &[u8]) -> Result<Stored, RuntimeError> {
        let hash = xxh3_64(bytes);
        let file = format!("client-{}-{kind}-{hash:016x}.bin", self.id);
        let path = self.folder.join(&file);
        fs::write(&path, bytes).map_err(|error| RuntimeError::file("write", &path, error))?;
        Ok(Stored { file, offset: 0, bytes: bytes.len() as u64, hash })
    }
}

fn own(
    client: Client<'_>,
    model: Option<&Model>,
    answers: bool,
    hand: &mut Hand,
) -> Result<Own, RuntimeError> {
    let tally = client.tally(model, answers, hand)?;
    Ok(Own { figures: client.figures(&tally), answers: tally.confusion().cloned() })
}

/// Reads what any executor has made durable.
fn read(folder: &Path, stored: &Stored) -> Result<Vec<u8>, RuntimeError> {
    let path = folder.join(&stored.file);
    let mut bytes = Vec::new();
    let mut fill = || {
        let mut file = File::open(&path)?;
        file.seek(SeekFrom::Start(stored.offset))?;
        file.take(stored.bytes).read_to_end(&mut bytes)
    };
    fill().map_err(|error| RuntimeError::file("read", &path, error))?;
    assert_eq!(xxh3_64(&bytes), stored.hash, "{stored:?}");
    Ok(bytes)
}
