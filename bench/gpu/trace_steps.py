"""Traces each program at several sizes, condenses, writes one file. Usage: trace_all.py ROOT OUT PROCS"""
import json, os, subprocess, sys, lzma
from concurrent.futures import ThreadPoolExecutor
root, out, procs = sys.argv[1:4]
sys.path.insert(0, os.path.join(root, 'bench/gpu'))
from forecast_programs import PROGRAMS
SIZES = [(1,1),(0.5,1),(2,1),(4,1),(1,0.5),(1,1.5),(1,2),(1,3)]
jobs=[]
for i,(n,(_,_,b,l)) in enumerate(PROGRAMS.items()):
    opt = ['adamw','sgd','sgd-momentum'][i%3]
    for fb,fl in SIZES:
        jobs.append((n,'train',fb,fl,['--script',os.path.join(root,'bench/gpu/forecast_programs.py'),'--mode','train','--optimizer',opt,'--arg',f'name={n}','--arg',f'batch={max(1,int(b*fb))}','--arg',f'length={int(l*fl)}']))
    for fb in (1,3):
        jobs.append((n,'infer',fb,1,['--script',os.path.join(root,'bench/gpu/forecast_programs.py'),'--mode','infer','--arg',f'name={n}','--arg',f'batch={int(b*fb)}','--arg',f'length={l}']))
CONFIGS = [c for c in os.environ.get('CONFIGS','').split() if c]
for i,c in enumerate(CONFIGS):
    name,b,l = c.split(':'); b=int(b); l=int(l)
    opt = ['adamw','adafactor','sgd-momentum'][i%3]
    path=os.path.join(root,'bench/truth/configs',name+'.json')
    for fb,fl in SIZES:
        jobs.append((name,'train',fb,fl,['--config',path,'--mode','train','--optimizer',opt,'--batch',str(max(1,int(b*fb))),'--seq',str(int(l*fl))]))
    for fb in (1,3):
        jobs.append((name,'infer',fb,1,['--config',path,'--mode','infer','--batch',str(int(b*fb)),'--seq',str(l)]))
LEAST = 128*1024
def condense(text):
    live={}; built=[]; step=None; steps={}; names={}
    cur=built; n=0
    where=0
    for line in text.splitlines():
        e=json.loads(line)
        if isinstance(e,dict): continue
        k=e[0]
        if k=='m':
            if e[1].startswith('step:'):
                step=int(e[1].split(':')[1]); cur=steps.setdefault(step,[])
            continue
        if k=='a':
            if e[2]<LEAST: continue
            n+=1; names[e[1]]=n; cur.append(n); cur.append(e[2])
        elif k=='f':
            if e[1] in names: cur.append(-names.pop(e[1]))
    return {'built':built,'steps':[steps[k] for k in sorted(steps)]}
def one(job):
    n,mode,fb,fl,args=job
    env=dict(os.environ,OMP_NUM_THREADS='1',PYTHONPATH=os.path.join(root,'python'))
    try:
        d=subprocess.run([sys.executable,'-m','plimsoll.trace',*args],capture_output=True,text=True,env=env,timeout=150)
    except subprocess.TimeoutExpired: return None
    if d.returncode: 
        print('failed',n,mode,fb,fl,d.stdout[-200:],d.stderr[-200:]); return None
    return {'program':n,'mode':mode,'batch':fb,'length':fl,**condense(d.stdout)}
with ThreadPoolExecutor(int(procs)) as pool: got=[g for g in pool.map(one,jobs) if g]
print(len(got),'of',len(jobs),'traced', sum(len(s) for g in got for s in g['steps']))
with lzma.open(out,'wt') as f: json.dump(got,f,separators=(',',':'))
