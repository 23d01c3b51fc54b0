import { drawJobs, measuredWorkloads } from './jobs.mjs';
import { lowerBound, packed } from './simulate.mjs';
import { randomFrom } from '../queue/random.mjs';
const L=77309411328;
for (const seed of [20261115,1,2]) {
const r=randomFrom(seed); const all=(await measuredWorkloads(r)).filter(w=>w.estimated<=L&&w.needs<=L);
const jobs=drawJobs(all,1000,r); const b=lowerBound(jobs,4,L);
const s=(f)=>jobs.reduce((t,j)=>t+f(j),0);
console.log(seed,'inflation',s(j=>j.estimated*j.seconds)/s(j=>j.needs*j.seconds),'ours',packed(jobs,{devices:4,capacityBytes:80*2**30,policy:'best-fit'}).seconds/b,
'perfect',packed(jobs.map(j=>({...j,estimated:j.needs})),{devices:4,capacityBytes:80*2**30,policy:'best-fit'}).seconds/b,
'worst over',all.map(w=>[w.id,(w.estimated/w.needs).toFixed(2)]).sort((a,b)=>b[1]-a[1]).slice(0,4).join(' '));
}
